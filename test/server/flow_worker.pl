# flow_worker.pl - a worker for flows and activities in Perl, written from docs/http-api.md, docs/workers.md and openapi.json
# alone: that they are enough is what it proves (test_flow_perl.sh)
#
# A flow is a sub of ($ctx, $input). A call whose answer has not come dies with {suspended}; the sub runs again from the top
# with every decision. Code here is one branch after the other, so that the order of answers decides nothing but `now` and
# where a cancel is thrown.
package Flow;
use strict;
use warnings;
use HTTP::Tiny;
use JSON::PP;

our (%flows, %activities);
my $json = JSON::PP->new->utf8->canonical->allow_nonref;
my $http = HTTP::Tiny->new(timeout => 70, keep_alive => 1);
my $said = {};    # what is the same in every call

sub ask
{
    my ($method, $path, $body) = @_;
    my %head = ('Content-Type' => 'application/json');
    $head{Authorization} = "Bearer $ENV{QUIPU_TOKEN}" if $ENV{QUIPU_TOKEN};
    my $answer = $http->request($method, $ENV{QUIPU_URL} . $path,
        {headers => \%head, $body ? (content => $json->encode($body)) : ()});
    return ($answer->{status}, $answer->{status} == 599 ? undef : $json->decode($answer->{content}));
}

# ------------------------------------------------------------------------------------------- locations
# {4, 0.3.1} is [[4], [0, 3, 1]]

sub parse { return [map { [split /\./] } split /, /, substr $_[0], 1, -1] }
sub text { return '{' . join(', ', map { join '.', @$_ } @_) . '}' }

sub between
{
    my ($prev, $here) = @_;
    my @place = @$prev;
    my $zeros = 1;
    if (@place >= @$here) {
        return @place > @$here ? [@place[0 .. $#place - 1], $place[-1] + 1] : [@place, 1];
    }
    if (!grep { $place[$_] != $here->[$_] } 0 .. $#place) {
        $zeros++ while $here->[@place + $zeros - 1] == 0;
    }
    return [@place, (0) x $zeros, 1];
}

# --------------------------------------------------------------------------------------- a run of the code

# One decision: what all branches of the code share.
sub run_new
{
    my ($task) = @_;
    my $run = {now => $task->{started_at}, fed => 0, below => {}, commands => [], open => 1, properties => {}};
    for my $event (@{$task->{log}}) {
        $run->{cancel} = $event, next if $event->{op} eq 'cancel';
        my $place = parse($event->{loc});
        my $last = pop @$place;
        push @{$run->{below}{text(@$place)}}, {%$event, last => $last};
    }
    return $run;
}

sub branch_new
{
    my ($run, $version, @prefix) = @_;
    return bless {run => $run, version => $version, prefix => \@prefix, events => $run->{below}{text(@prefix)} || [],
                  index => 0, prev => [0]};
}

sub here { return $_[0]{events}[$_[0]{index}] }

sub pass
{
    my ($ctx) = @_;
    my $event = $ctx->here;
    $ctx->{index}++;
    $ctx->{looked} = 0;
    $ctx->{prev} = $event->{last};
    return $event;
}

sub free
{
    my ($ctx) = @_;
    $ctx->{prev} = $ctx->here ? between($ctx->{prev}, $ctx->here->{last}) : [$ctx->{prev}[0] + 1];
    return text(@{$ctx->{prefix}}, $ctx->{prev});
}

sub side
{
    my ($of) = @_;
    return {map { defined $of->{$_} ? ($_ => $of->{$_}) : () } qw(loc op name v of)};
}

# The event of a step; of one that is new what it will be, without `done`. %$command: what makes it.
sub step
{
    my ($ctx, $op, $name, $command) = @_;
    my $v = $ctx->{version} + (delete $command->{n} || 1) - 1;
    my $event = $ctx->here;
    if ($event && $v <= $event->{v}) {
        return $ctx->pass if $v == $event->{v} && $op eq $event->{op} && ($name // '') eq ($event->{name} // '');
        my $code = side({op => $op, name => $name, v => $v, of => $command->{of}});
        my $history = side($event);
        delete $history->{loc};
        die {told => {status => 'diverged', at => $event->{loc}, history => $history, code => $code}};
    }
    die "a step stands directly behind a version check\n" if $event && $ctx->{looked};
    my $loc = $ctx->free;
    push @{$ctx->{run}{commands}}, {op => $op, defined $name ? (name => $name) : (), v => $v, loc => $loc, %$command};
    return {loc => $loc, is_new => 1, shield => $command->{shield}};
}

sub command { return $_[0]{run}{commands}[-1] }

# The answers of all of them; the first error dies.
sub all
{
    my ($ctx, @events) = @_;
    my $run = $ctx->{run};
    my $cancel = $run->{thrown} ? undef : $run->{cancel};
    for my $event ($cancel ? @events : ()) {
        next unless defined $cancel->{thrown} ? $cancel->{thrown} eq $event->{loc}
            : !$event->{is_new} && !$event->{shield} && ($event->{done} // $cancel->{done}) >= $cancel->{done};
        @$run{qw(thrown now)} = ($event->{loc}, $cancel->{at});
        die {error => {code => 499, message => 'the flow was cancelled'}};
    }
    my $open = grep { !defined $_->{done} } @events;
    if ($open) {
        $run->{open} = $open;
        die {suspended => 1};
    }
    for my $event (sort { $a->{done} <=> $b->{done} } @events) {
        @$run{qw(fed now)} = @$event{qw(done at)} if $event->{done} > $run->{fed};
    }
    for my $event (sort { $a->{done} <=> $b->{done} } grep { $_->{error} } @events) {
        die {error => $event->{error}};
    }
    return map { $_->{ok} } @events;
}

# ------------------------------------------------------------------------------------ what the code calls

sub now { return $_[0]{run}{now} }
sub set { my ($ctx, %values) = @_; @{$ctx->{run}{properties}}{keys %values} = values %values; return }
sub activity { my ($ctx, @step) = @_; return ($ctx->all($ctx->begin(@step)))[0] }
sub begin { my ($ctx, $name, $input, %more) = @_; return $ctx->step('activity', $name, {input => $input, %more}) }
sub sleep { my ($ctx, $ms) = @_; $ctx->all($ctx->step('sleep', undef, {until => $ctx->now + $ms})); return }

sub child
{
    my ($ctx, $workflow, $input, %more) = @_;
    my $event = $ctx->step('child', $workflow, {input => $input, %more});
    $ctx->command->{workflow} = delete $ctx->command->{name} if $event->{is_new};
    return ($ctx->all($event))[0];
}

sub listen
{
    my ($ctx, $name, $ms) = @_;
    my $event;
    if (defined $ms) {
        $event = $ctx->step('sleep', undef, {op => 'listen', names => [$name], until => $ctx->now + $ms});
        $ctx->command->{got} = $ctx->free if $event->{is_new};
        return undef unless ($ctx->all($event))[0]{interrupted};
        return ($ctx->pass)->{ok}[0]{data};
    }
    $event = $ctx->step('signals', undef, {op => 'listen', names => [$name]});
    return ($ctx->all($event))[0][0]{data};
}

sub run
{
    my ($ctx, $name, $code) = @_;
    my $event = $ctx->step('run', $name, {});
    return $event->{is_new} ? $ctx->command->{ok} = $code->() : $event->{ok};
}

sub signal
{
    my ($ctx, $job, $name, $data) = @_;
    $ctx->step('signal', $name, {to => $job, data => $data});
    return;
}

sub branch
{
    my ($ctx, $name, $code) = @_;
    my $event = $ctx->step('branch', $name, {});
    my $inside = branch_new($ctx->{run}, $ctx->{version}, @{parse($event->{loc})});
    my $value = $code->($inside);
    $inside->end;
    return $value;
}

# $code is called with (branch of the round, state) and returns (state, output); one with an output is the last.
sub loop
{
    my ($ctx, $name, $state, $code) = @_;
    my $event = $ctx->step('loop', $name, {iteration => 0, state => $state});
    my @place = @{parse($event->{loc})};
    my $rounds = $ctx->{run}{below}{$event->{loc}} || [];
    if (defined $event->{broken}) {
        $ctx->loop_seen($event);
        $ctx->set(%{$event->{properties} || {}});
        return $event->{ok};
    }
    for (my $i = 0;; $i++) {
        my @inside = (@place, [$i + 1]);
        push @{$ctx->{run}{commands}}, {op => 'branch', name => $name, v => $ctx->{version}, loc => text(@inside)}
            unless $rounds->[$i];
        my $round = branch_new($ctx->{run}, $ctx->{version}, @inside);
        my ($next, $output) = $code->($round, $state);
        $round->end;
        $state = $next;
        next unless defined $output;
        push @{$ctx->{run}{commands}}, {op => 'loop', name => $name, v => $ctx->{version}, loc => $event->{loc},
                                        iteration => $i + 1, state => $state, output => $output};
        return $output;
    }
}

# A loop that has ended is not entered again: the time behind it is the latest of the answers below it.
sub loop_seen
{
    my ($ctx, $loop) = @_;
    my $run = $ctx->{run};
    my @places = ($loop->{loc});
    while (defined(my $place = shift @places)) {
        for my $event (@{$run->{below}{$place} || []}) {
            push @places, $event->{loc};
            next unless $event->{op} =~ /^(activity|sleep|signals|child)$/ && defined $event->{done};
            next unless $event->{done} <= $loop->{broken};
            $run->{fed} = $event->{done} if $event->{done} > $run->{fed};
            $run->{now} = $event->{at} if $event->{at} > $run->{now};
        }
    }
    return;
}

sub removed
{
    my ($ctx, $op, $name, $n) = @_;
    my $v = $ctx->{version} + ($n || 1) - 1;
    my $event = $ctx->here;
    if (!$event) {
        $ctx->step('removed', $name, {op => 'mark', mark => 'removed', of => $op, n => $n});
    } elsif (($event->{of} // $event->{op}) eq $op && ($event->{name} // '') eq ($name // '') && $event->{v} == $v) {
        $ctx->pass;
    }
    return;
}

sub check_version
{
    my ($ctx, $latest) = @_;
    my $event = $ctx->here;
    if (!$event) {
        $ctx->step('version', undef, {op => 'mark', mark => 'version', n => $latest});
        return $latest;
    }
    my $version = $event->{v} - $ctx->{version} + 1;
    $event->{op} eq 'version' ? $ctx->pass : ($ctx->{looked} = 1);
    return $version;
}

sub end
{
    my ($ctx) = @_;
    my @left = @{$ctx->{events}}[$ctx->{index} .. $#{$ctx->{events}}];
    return if !@left || $ctx->{run}{thrown};
    die {told => {status => 'latent', at => text(@{$ctx->{prefix}}), left => [map { side($_) } @left]}};
}

# ------------------------------------------------------------------------------------------------ tasks

sub decide
{
    my ($task) = @_;
    while (defined $task->{more}) {
        my ($status, $page) = ask('GET', "/v1/jobs/$task->{job}/log?cursor=$task->{more}");
        die "the log is answered $status\n" if $status != 200;
        push @{$task->{log}}, @{$page->{log}};
        $task->{more} = $page->{more};
    }
    my $run = run_new($task);
    my $ctx = branch_new($run, 1);
    my $output = eval {
        my $value = $flows{$task->{workflow}}->($ctx, $task->{input});
        $ctx->end;
        {value => $value};
    };
    my $why = ref $@ ? $@ : {mistake => $@};
    my @last = %{$run->{properties}} ? {op => 'set', properties => $run->{properties}} : ();
    die $why->{mistake} if !$output && defined $why->{mistake};
    return $why->{told} if $why->{told};
    push @last, {op => 'return', output => $output->{value}} if $output;
    push @last, {op => 'fail', error => $why->{error}} if $why->{error};
    return {base => $task->{base}, commands => [@{$run->{commands}}, @last], after => $run->{open},
            $run->{thrown} && !defined $run->{cancel}{thrown} ? (thrown => $run->{thrown}) : ()};
}

sub work
{
    my ($task) = @_;
    my $result = eval {
        $task->{kind} eq 'flow' ? decide($task) : {output => $activities{$task->{name}}->($task->{input}, $task)};
    };
    return {token => $task->{token}, $result ? %$result : (status => 'error', error => {message => "$@"})};
}

sub main
{
    my ($worker, $build) = @_;
    my @results;
    my $goes_on = 1;
    local $SIG{TERM} = sub { $goes_on = 0 };
    $said = {worker => $worker, build => $build};
    while ($goes_on) {
        my ($status, $answer) = ask('POST', '/v1/work', {%$said, topics => [sort keys %activities], wait => '2s',
            flows => [map { {name => $_} } sort keys %flows], results => \@results});
        if ($status != 200) {
            select undef, undef, undef, 0.1;    # the same results go again: a result counts once
            next;
        }
        @results = map { {token => $_->{token}, status => 'error', error => {message => $_->{detail}, fatal => JSON::PP::true()}} }
            grep { $_->{status} eq 'refused' } @{$answer->{acks}};
        push @results, map { work($_) } @{$answer->{tasks}};
    }
    ask('POST', '/v1/work', {%$said, results => \@results, leave => JSON::PP::true()});
    return;
}

1;
