#!/bin/bash
# test_flow_perl.sh - a worker in Perl that was written from docs/http-api.md, docs/workers.md and openapi.json alone
#
#   all       each kind of step: retry, parallel activities, sleep, run, listen with and without a time limit, a signal to
#             another flow, a branch, a loop, children; the server is killed while they wait, in the long lane
#             it and the workers at random (what is in a worker's hand then comes again after a lease of 30 s)
#   edited    the code gains a step, loses one and asks for the version: flows that are past the places and flows that are not
#   wrong     a step is exchanged, a step is dropped: both sides are named; the old code finishes these flows after a retry
#   older     code of an older build gives the decision back
#   cancel    compensations run in reverse, once
#   long      a history of more than one page
#
# QP_SEED chooses who is killed, and when. 100 flows with QP_LANE=torture.
set -eu
flows=4 kills=0
[ "${QP_LANE:-check}" != torture ] || flows=100 kills=40
. test/server/drill.sh

cat > order.pl << 'EOF'
use strict;
use warnings;
require "$ENV{ROOT}/test/server/flow_worker.pl";
my ($name, $build) = @ARGV;
my $edited = $build eq 'edited';

sub effect
{
    my ($input, $task) = @_;
    open my $out, '>>', 'effects' or die;
    print $out "$task->{name} $task->{job} $task->{idempotency_key}\n";
    close $out;
    return {did => $task->{name}, with => $input};
}

$Flow::flows{order} = sub {
    my ($ctx, $input) = @_;
    my $paid = $ctx->activity('charge', $input, retry => {attempts => 50, backoff => 20, factor => 1});
    $ctx->set(stage => 'paid');
    my @got = $ctx->all($ctx->begin('reserve', 1), $ctx->begin('insure', 2));
    $ctx->sleep(20);
    my $ticket = $ctx->run('ticket', sub { int rand 1e6 });
    my $late = $ctx->listen('never', 20);
    my $go = $ctx->listen('go', 3_600_000);
    my $parts = $ctx->branch('parts', sub { my ($in) = @_; return [$in->activity('pack', 3), $in->activity('label', 4)] });
    my $rounds = $ctx->loop('rounds', 0, sub {
        my ($round, $state) = @_;
        $state += $round->activity('count', 1);
        $round->sleep(1);
        return ($state, $state == 3 ? {counted => $state} : undef);
    });
    my $now = $ctx->now;
    my $bill = $ctx->child('bill', $input, id => "$input->{id}-bill");
    my $mail = $ctx->child('mail', $input, id => "$input->{id}-mail", detached => JSON::PP::true());
    $ctx->signal("$input->{id}-mail", 'text', {rounds => $rounds});
    $ctx->set(stage => 'done', now => $now);
    my $end = $ctx->listen('end');
    die {error => {code => 409, message => 'the time behind the loop differs'}} if $ctx->run('now', sub { $now }) != $now;
    return {paid => $paid, got => \@got, late => $late, go => $go, parts => $parts, rounds => $rounds, bill => $bill,
            mail => $mail, end => $end};
};
$Flow::flows{bill} = sub { my ($ctx, $input) = @_; $ctx->sleep(5); return $ctx->activity('charge', $input) };
$Flow::flows{mail} = sub { my ($ctx) = @_; return $ctx->listen('text') };

$Flow::flows{edits} = sub {
    my ($ctx, $input) = @_;
    $ctx->activity('a', 1);
    $ctx->activity('x', 1, n => 2) if $edited;
    $edited ? $ctx->removed('activity', 'b') : $ctx->activity('b', 1);
    $ctx->listen('go', 3_600_000);
    my $version = $edited ? $ctx->check_version(2) : 1;
    $version == 2 ? $ctx->activity('c2', 1, n => 2) : $ctx->activity($build eq 'wrong' ? 'cc' : 'c', 1);
    $ctx->listen('go');
    $ctx->activity('d', 1) unless $build eq 'short';
    $ctx->listen('go') unless $build eq 'short';
    return $version;
};

$Flow::flows{undo} = sub {
    my ($ctx, $input) = @_;
    my @undo;
    my $out = eval {
        for my $what ('plane', 'hotel') {
            $ctx->activity($what, $input);
            unshift @undo, "$what-back";
        }
        $ctx->listen('ever');
        1;
    };
    my $why = $@;
    die $why if ref $why && ($why->{suspended} || $why->{told});
    $ctx->activity($_, $input, shield => JSON::PP::true()) for @undo;
    die $why;
};

$Flow::flows{long} = sub {
    my ($ctx) = @_;
    for my $part (1, 2) {
        $ctx->run("r$_", sub { $_[0] }) for 1 .. 1500;
        $ctx->sleep(1);
    }
    return $ctx->run('last', sub { 'read' });
};

my $charged = 0;
$Flow::activities{$_} = \&effect for qw(reserve insure pack label a b c cc c2 d x plane hotel plane-back hotel-back);
$Flow::activities{count} = sub { return $_[0] };
$Flow::activities{charge} = sub {
    my ($input, $task) = @_;
    die "the bank is down\n" if $task->{attempt} == 1;
    return effect(@_);
};
Flow::main($name, $build);
EOF
# perl_work NAME BUILD
perl_work() {
    ROOT=$root perl order.pl "$1" "$2" 2>> worker.err &
    workers[$1]=$!
}
# post PATH BODY
post() {
    curl -sf -H 'Content-Type: application/json' --data-binary "$2" "$QUIPU_URL$1" > /dev/null
}
# parked JOB: until it is, and then why
parked() {
    await "id=\"$1\" and status=parked" 1
    client member "$1" parked
}

serve 127.0.0.1:0
perl_work p1 first
perl_work p2 first
client start $flows
for ((i = 0; i < kills; i++)); do
    if ((RANDOM % 3 == 0)); then
        serve_again
    else
        name=p$((1 + RANDOM % 2))
        crash_worker $name
        perl_work $name first
    fi
    sleep 0.0$((RANDOM % 10))
done
await 'workflow=order and status=waiting' $flows
serve_again
client signal go $flows
await 'workflow=order and properties.stage=done' $flows
client signal end $flows
await 'workflow=order and status=completed' $flows
await 'workflow=mail and status=completed' $flows
output=$(client member o1 output)
for part in '"late": null' '"go": 1' '"end": 1' '"rounds": {"counted": 3}' '"mail": {"job_id": "o1-mail"}' '"did": "charge"'; do
    [[ $output == *"$part"* ]] || { echo "$part is not in $output" >&2; exit 1; }
done
expect 'what the signal of o1 has brought' "$(client member o1-mail output)" '{"rounds": {"counted": 3}}'
expect 'charged jobs' "$(effects charge)" $((2 * flows))
one_key

for job in before behind third wrong short; do
    post /v1/jobs "{\"workflow\":\"edits\",\"id\":\"$job\"}"
done
await 'workflow=edits and status=waiting' 5
for job in behind wrong third short third; do
    post "/v1/jobs/$job/signals" '{"topic":"go"}'
    client until "$job" seq > /dev/null
done
until [ "$(effects d)" = 1 ] && [ "$(effects c)" = 4 ]; do sleep 0.05; done
await 'workflow=edits and status=waiting' 5
crash_worker p1
crash_worker p2

perl_work p1 wrong
post /v1/jobs/wrong/signals '{"topic":"go"}'
[[ $(parked wrong) == *"at {5}: history has activity 'c' v1, the code has activity 'cc' v1"* ]]
crash_worker p1
perl_work p1 short
post /v1/jobs/third/signals '{"topic":"go"}'
[[ $(parked third) == *"the code of {} ended, and its history goes on: {7} activity 'd' v1; {8} signals v1"* ]]
crash_worker p1
perl_work p1 edited
for job in wrong third; do
    post "/v1/jobs/$job/retry" '{}'
done
for job in before behind wrong short; do
    for _ in 1 2; do
        post "/v1/jobs/$job/signals" '{"topic":"go"}' || true
    done
done
post /v1/jobs/before/signals '{"topic":"go"}'
await 'workflow=edits and status=completed' 5
expect 'jobs with the inserted step' "$(effects x)" 5
expect 'jobs that went the new way' "$(effects c2)" 1
expect 'the version of the job that had not come to the check' "$(client member before output)" 2
expect 'the version of one that had' "$(client member behind output)" 1

post /v1/jobs '{"workflow":"edits","id":"newer"}'
await 'id=newer and status=waiting' 1
crash_worker p1
perl_work p1 first
post /v1/jobs/newer/signals '{"topic":"go"}'
[[ $(client until newer awaits) == *'a newer build is awaited'* ]]

post /v1/jobs '{"workflow":"undo","id":"trip"}'
await 'id=trip and status=waiting' 1
post /v1/jobs/trip/cancel '{"reason":"rain"}'
await 'id=trip and status=cancelled' 1
expect 'what the trip did' "$(awk '$2 == "trip" { print $1 }' effects | xargs)" 'plane hotel hotel-back plane-back'

post /v1/jobs '{"workflow":"long","id":"long"}'
await 'id=long and status=completed' 1
expect 'the last step of a long history' "$(client member long output)" read
kill -TERM "${workers[p1]}"
wait "${workers[p1]}"
unset 'workers[p1]'
expect 'refusals that the worker has seen' "$(wc -c < worker.err)" 0
end_well
