/* limits.h - every limit of the system, in one file
 *
 * A queue, buffer, depth, size or retry without a name here is a bug. Names end in their unit. What
 * a user may configure says so; the number here is then the default, and _HARD is as far as
 * configuration goes.
 */
#ifndef QP_BASE_LIMITS_H
#define QP_BASE_LIMITS_H

#include <assert.h>

/* Names and ids */
#define LIMIT_NAME_SIZE 255     /* workflow, topic, namespace, activity: [A-Za-z0-9._~:-]+ */
#define LIMIT_ID_SIZE 255       /* job id, custom id, keys: printable UTF-8, not trimmed */
#define LIMIT_ADDRESS_SIZE 1024 /* activity id and dimensional address */
#define LIMIT_GUID_SIZE 16      /* bytes of a GUID, exactly */

#define LIMIT_PATTERN_SIZE 255    /* of namespaces, topics, scopes in an access token */
#define LIMIT_ACCESS_HASH_SIZE 32 /* bytes of the hash of a secret, exactly */

/* Payloads */
#define LIMIT_PAYLOAD_SIZE (2 * 1024 * 1024)
#define LIMIT_PAYLOAD_HARD_SIZE (32 * 1024 * 1024)
#define LIMIT_ERROR_TEXT_SIZE (4 * 1024)
#define LIMIT_ATTRIBUTE_SIZE 1024

/* JSON */
#define LIMIT_JSON_SIZE LIMIT_PAYLOAD_HARD_SIZE
#define LIMIT_JSON_DEPTH 64
#define LIMIT_JSON_FRAMED_DEPTH 128 /* of a body whose parts are checked one by one */
#define LIMIT_JSON_KEYS 10000       /* per object */
#define LIMIT_JSON_STRING_SIZE (1024 * 1024)
#define LIMIT_JSON_NUMBER_SIZE 64

/* YAML */
#define LIMIT_YAML_SIZE (4 * 1024 * 1024)
#define LIMIT_YAML_DEPTH 32
#define LIMIT_REF_DEPTH 16  /* references of a file to files that have some */
#define LIMIT_DEV_FILES 256 /* applications that quipu dev looks at */
#define LIMIT_YAML_NODES 200000
#define LIMIT_FINDINGS 50       /* things wrong with a text that are told; all are counted */
#define LIMIT_FINDING_SIZE 1024 /* the sentence of one */

/* Graphs: of one application */
#define LIMIT_APP_GRAPHS 1000
#define LIMIT_APP_ACTIVITIES 5000
#define LIMIT_APP_TRANSITIONS 10000
#define LIMIT_APP_EXITS 1000000 /* ways out of what activities dominate, see graph.h */
#define LIMIT_SPAWN 2000        /* transitions of one activity */
#define LIMIT_CODE_LEAST 100    /* of a reply or a signal, and in conditions */
#define LIMIT_CODE 599
#define LIMIT_ATTEMPTS 1000000 /* that a retry policy may ask for */

/* Memory */
#define LIMIT_ARENA_SIZE (256 * 1024 * 1024) /* one arena, all its blocks */
#define LIMIT_BUFFER_SIZE (64 * 1024 * 1024) /* one growing buffer, unless its owner says less */

/* Log and metrics */
#define LIMIT_LOG_LINE_SIZE 4096
#define LIMIT_LOG_ECHO_SIZE 200   /* of foreign input, at most, in a log line or an error */
#define LIMIT_METRICS 256         /* metric families */
#define LIMIT_STATS_ROWS 10000    /* timers and parked jobs that a look at the numbers counts */
#define LIMIT_STATS_KEEP_MS 15000 /* between two such looks */
#define LIMIT_METRIC_SERIES 500   /* label sets per family; further ones are counted as "other" */

/* Store */
#define LIMIT_BUNDLE_OPS 25000 /* rows that one message may commit */
#define LIMIT_BUNDLE_SIZE (32 * 1024 * 1024)
#define LIMIT_COMMIT_BUNDLES 4096 /* bundles that share one commit */
#define LIMIT_CLAIM_MESSAGES 1000 /* per claim */
#define LIMIT_WAKE_MESSAGES 1000  /* per sweep of timers and leases */
#define LIMIT_SWEEP_ROWS 500      /* per retention or clean-up step */
#define LIMIT_SIGNALS_PENDING_PER_KEY 100
#define LIMIT_SIGNALS_PENDING_SIZE (1024 * 1024)   /* per key, all payloads */
#define LIMIT_SIGNALS_KEPT_PER_JOB 10000           /* of a job that listens for signals by name */
#define LIMIT_SIGNALS_KEPT_SIZE (64 * 1024 * 1024) /* likewise, all payloads */
#define LIMIT_LISTEN_NAMES 32                      /* that one activity listens for */
#define LIMIT_LISTEN_SIGNALS 100                   /* that come at once */
#define LIMIT_LISTEN_SIZE LIMIT_PAYLOAD_SIZE       /* likewise, all payloads, from the second on */
#define LIMIT_ENVELOPE_SIZE 2048                   /* what is added to the payload of each */
#define LIMIT_SCAN_SIZE LIMIT_BUNDLE_SIZE          /* an op that reads more comes again */
#define LIMIT_LEASE_MS (24LL * 3600 * 1000)
#define LIMIT_TIMER_MS (3653LL * 24 * 3600 * 1000) /* ten years */
#define LIMIT_PRIORITY 9                           /* 0 is served first */
#define LIMIT_PAGE_ROWS 1000
#define LIMIT_IDS_PER_BLOCK 65536 /* numbers that one node reserves at a time */
#define LIMIT_PAGE_CACHE_KIB                                                                       \
    16384 /* SQLite's pages in memory; more is slower, for the processor's caches */
#define LIMIT_WAL_PAGES 4000        /* checkpoint when the write-ahead log has this many pages, */
#define LIMIT_WAL_COMMITS 1000      /* and this many commits were made since the last one; else */
#define LIMIT_WAL_MOST_PAGES 16000  /* when it has this many */
#define LIMIT_STORE_LOOK_MS 250     /* between two looks whether a store in use is still in place */
#define LIMIT_HOST_CALLBACK_MS 5000 /* a host callback inside a commit */
#define LIMIT_CLOCK_SLEW                                                                           \
    100 /* the store's clock follows a step of the wall by one part in this many */
#define LIMIT_CACHE_SIZE                                                                           \
    (16 * 1024 * 1024)                   /* rows kept between commits, where one process writes */
#define LIMIT_CACHE_ROW_SIZE (16 * 1024) /* a row with more text is not kept */

/* Stores that are shared */
#define LIMIT_COMMIT_ENTRIES 1048575     /* of the journal, in one commit */
#define LIMIT_COMMIT_TRIES 10            /* of a commit that meets others */
#define LIMIT_FETCH_SEQ 64               /* a job with a longer journal is not fetched as a whole */
#define LIMIT_FETCH_ROW_SIZE (64 * 1024) /* nor a row with more text, together with others */
#define LIMIT_ORDERS_PER_BLOCK 4096      /* numbers of messages that one handle takes at a time */
#define LIMIT_COUNTER_SHARDS 16
#define LIMIT_COMMIT_MS 4000         /* after which such a commit is not tried again */
#define LIMIT_RECONNECT_MS 20        /* before the second try; then twice as long each time */
#define LIMIT_RECONNECT_MOST_MS 3000 /* for what wants to begin; then the server is away */
#define LIMIT_RESOLVE_MS 4000        /* to learn how a commit ended whose answer was lost */
#define LIMIT_ANSWER_MS 10000        /* without a byte of an answer: the server is taken for gone */
#define LIMIT_STATEMENT_MS (60 * 1000) /* of one statement on a server */
#define LIMIT_LOCK_MS 5000             /* waiting for a row of another */
#define LIMIT_SILENCE_MS 7000      /* of who has a transaction open: then others have its rows */
#define LIMIT_CLOCK_KEEP_MS 1000   /* how far the kept clock may be behind */
#define LIMIT_HUSK_ROWS 1000       /* empty lanes and counters that housekeeping takes at a time */
#define LIMIT_HINT_GAP_MS 20       /* between two hints of one handle that there is something */
#define LIMIT_HINT_ANSWER_MS 10000 /* of the line for hints: then it is taken for dead */
#define LIMIT_HINT_PAUSE_MS 100    /* before it is made again; then twice as long each time */
#define LIMIT_HINT_PAUSE_MOST_MS 10000

/* Moving a store */
#define LIMIT_COPY_ROWS 4096              /* per transaction */
#define LIMIT_COPY_SIZE (8 * 1024 * 1024) /* per transaction, unless one row has more */
#define LIMIT_STORE_NAME_SIZE 4096        /* a path, or a URL without its password */

/* Engine */
#define LIMIT_FUSE_OPS 4000 /* ops of one bundle, past which children become messages */
#define LIMIT_FUSE_SIZE (LIMIT_ARENA_SIZE / 4)       /* memory of one commit, likewise */
#define LIMIT_FUSE_ROWS_SIZE (LIMIT_BUNDLE_SIZE / 4) /* new rows of one bundle, likewise */
#define LIMIT_FUSE_DEPTH 8                           /* generations that one bundle takes */
#define LIMIT_RETRY_NEVER 16      /* codes of a retry policy that are not tried again */
#define LIMIT_RETRY_CODES 8       /* codes of a retry policy that alone are tried again */
#define LIMIT_LEVEL_ITEMS 500     /* that a gate answers in one commit */
#define LIMIT_LEVEL_OPS 12000     /* of one bundle, past which the gate's next page begins */
#define LIMIT_CHILDREN_BORN 10000 /* children of one step that are born waiting */
#define LIMIT_DELIVERIES                                                                           \
    20 /* of a message without an answer, then it is a dead letter; configurable */
#define LIMIT_FANOUT_TARGETS 500 /* per page */
#define LIMIT_FANOUT_SIZE                                                                          \
    (LIMIT_BUNDLE_SIZE / 4)     /* of what they get, after which the next page begins */
#define LIMIT_CALLERS 64        /* above a job, that are looked at for the start of a retry */
#define LIMIT_DESCENT_JOBS 500  /* called jobs that end with theirs, per page */
#define LIMIT_FORK_LINE 100     /* jobs that a fork of a fork is traced back to */
#define LIMIT_COLLECT_JOBS 5000 /* jobs looked at for one that needs a deleted version, per page */
#define LIMIT_APP_KEEP_MS                                                                          \
    (3600LL * 1000)               /* the text of a deleted version, and while jobs need it */
#define LIMIT_ROUND_MESSAGES 1000 /* of the engine's stream, per commit */
#define LIMIT_ROUND_COMMANDS 2048 /* from outside, per commit */
#define LIMIT_SLICE_US                                                                             \
    600 /* that a commit with messages takes while commands come, if these need less */
#define LIMIT_SLICE_TURNS 2       /* commits that commands have between two with messages */
#define LIMIT_SLICE_LINGER_US 200 /* that the driver waits for the second of them */
#define LIMIT_SLICE_MOST_US 10000 /* that a commit decides messages at most */
#define LIMIT_SLICE_QUIET_US                                                                       \
    (100 * 1000) /* without a command, after which a commit takes the most */
#define LIMIT_ROUND_SIZE                                                                           \
    (LIMIT_ARENA_SIZE / 4)       /* memory of a commit, past which the next one begins */
#define LIMIT_COMMANDS 65536     /* that wait */
#define LIMIT_CALL_MS 5000       /* that one waits for the store before it is withdrawn */
#define LIMIT_CLOSE_MS 10000     /* that qp_close waits for calls of other threads */
#define LIMIT_TASKS_IN_HAND 1024 /* per topic, that one process fetches ahead; configurable */
#define LIMIT_TASKS_IN_HAND_HARD 65536
#define LIMIT_RUN_LEASE_MS 10000 /* of a process, where several share a store; configurable */
#define LIMIT_RUN_LEASE_LEAST_MS 1000
#define LIMIT_PROGRAMS 16
#define LIMIT_WORKER_THREADS 1024
#define LIMIT_RETENTION_JOBS 50                /* per commit */
#define LIMIT_FEED_MS (7LL * 24 * 3600 * 1000) /* how long the feed goes back */
#define LIMIT_FEED_LOOK_MS (60 * 1000)         /* between two looks whether some of it is older */
#define LIMIT_LOOK_MS 1000 /* between two looks for what others have put, where others are */
#define LIMIT_DUE_MS 100   /* before another look at what is due and in somebody else's hands */
#define LIMIT_BACKOFF_MS (5 * 60 * 1000) /* between two deliveries of a message that failed */
#define LIMIT_SIGNAL_TTL_MS                                                                        \
    (7LL * 24 * 3600 * 1000) /* a signal that nobody waits for; configurable */

/* Workers elsewhere */
#define LIMIT_WORK_CALLS 20000         /* that are not answered yet, parked ones included */
#define LIMIT_WORK_TOPICS 100          /* of one call */
#define LIMIT_WORK_STREAMS 16384       /* topics that are asked for, per process */
#define LIMIT_WORK_TASKS 1000          /* that one call takes */
#define LIMIT_WORK_RESULTS 1000        /* that one call brings, and beats */
#define LIMIT_WORK_WAIT_MS (60 * 1000) /* of a call for tasks */
#define LIMIT_WORK_WAIT_SIZE                                                                       \
    (64 * 1024) /* a call whose body is larger does not wait when it brings results */
#define LIMIT_RESULT_RECORD_MS                                                                     \
    (24LL * 3600 * 1000) /* that a result which may come twice is known; not shorter than a lease */
#define LIMIT_RESULT_REFUSALS 3  /* of one task, then its job is parked, where its kind says so */
#define LIMIT_REFUSED_TASKS 1024 /* whose refusals are counted */
#define LIMIT_WORK_LEASE_MS                                                                        \
    (30 * 1000) /* of a task, from its claim or the last beat; of a worker, from its last call */
#define LIMIT_LOST_MS                                                                              \
    5000 /* a lease that ran out: until that is reported, and so late it is not its worker's fault */
#define LIMIT_PRESENCE_MS                                                                          \
    1000 /* between two words to other nodes about workers that came or went */
#define LIMIT_PRESENCE_SIZE (256 * 1024) /* of what a node says about its workers */
#define LIMIT_WORKERS 65536              /* that are known */
#define LIMIT_UNSERVED_MS 5000           /* nobody asks for a topic: then that is told */
#define LIMIT_PROGRESS_SIZE 4096

/* Reading */
#define LIMIT_FILTER_SIZE 4096
#define LIMIT_FILTER_CONDITIONS 16
#define LIMIT_LIST_DEFAULT 100             /* items of a page, when nothing is said */
#define LIMIT_LIST_ROWS 10000              /* that one page looks at */
#define LIMIT_LIST_SIZE (64 * 1024 * 1024) /* bytes of them */
#define LIMIT_LIST_CHUNK 256               /* jobs that are looked up together */
#define LIMIT_FEED_COMMITS 1000            /* that one reading of the feed takes */
#define LIMIT_READERS 4                    /* connections for reading, per process */
#define LIMIT_START_ATTRIBUTES 16
#define LIMIT_TASK_STARTS 100                  /* jobs that one task starts with its result */
#define LIMIT_IDEM_MS (7LL * 24 * 3600 * 1000) /* the record of an idempotency key; configurable */

/* Graphs */
#define LIMIT_APPS_KNOWN 256    /* compiled versions in memory */
#define LIMIT_APP_TOPICS 100000 /* of all applications of a store */
#define LIMIT_HOOK_MATCHES 16   /* that make the key of a hook */
#define LIMIT_GRAPH_DEPTH 500   /* generations from the trigger down; a join is two */
#define LIMIT_CYCLES 10000      /* rounds of one pivot */
#define LIMIT_JOB_DATA_SIZE (8 * 1024 * 1024)
#define LIMIT_COMPOSITION_DEPTH 16 /* jobs that call jobs, in one compositional key */
#define LIMIT_COMPOSITION_JOBS 1000
#define LIMIT_MEASURED_JOBS 100000 /* that one question about measures counts */
#define LIMIT_SEGMENTS 10000

/* Histories of flows */
#define LIMIT_LOCATION_COORDINATES 32        /* of one location: how deep branches nest */
#define LIMIT_LOCATION_ORDINATES 64          /* of one location, in all its coordinates */
#define LIMIT_ORDINATE 2147483647            /* 2^31 - 1 */
#define LIMIT_STEP_VERSION 2147483647        /* the n of v(n) and check_version(n) */
#define LIMIT_EVENT_VERSION 9007199254740991 /* of an event: what branches around it add up to */
#define LIMIT_LATENT_NAMED 5                 /* events behind the end of the code that are named */

/* Flows */
#define LIMIT_FLOW_COMMANDS 2000 /* of one decision */
#define LIMIT_FLOW_DECISION_SIZE                                                                   \
    (8 * 1024 * 1024)               /* of one decision, with the inputs of what it begins */
#define LIMIT_FLOW_EVENTS 200000    /* of one history */
#define LIMIT_REPLAY_MS (30 * 1000) /* that a worker has for one history of quipu replay */
#define LIMIT_FLOW_COPY_EVENTS 100  /* of it that one copying decision of a fork makes or answers */
#define LIMIT_FLOW_COPY_SIZE                                                                       \
    (1024 * 1024) /* likewise bytes of inputs and outputs, after which it ends */
#define LIMIT_FLOW_COPY_PLAN (64 * 1024)      /* bytes of one page of the plan of a fork */
#define LIMIT_FLOW_PAGE_EVENTS 2000           /* of it that a task, or a page behind it, has */
#define LIMIT_FLOW_PAGE_SIZE (1024 * 1024)    /* likewise bytes of inputs and outputs */
#define LIMIT_NEWER_BUILD_MS (10 * 60 * 1000) /* that a decision waits for a newer build */
#define LIMIT_NEWER_LOOK_MS (5 * 1000)        /* until it is offered again meanwhile */
#define LIMIT_NEWER_BUILDS 8                  /* that have given it back, of those remembered */
#define LIMIT_FLOW_EVENTS_WARN 50000          /* of one history: a warning is logged */
#define LIMIT_FLOW_SIZE (256LL * 1024 * 1024) /* of the inputs and outputs of one history */
#define LIMIT_LOOP_COMMIT                                                                          \
    20                      /* rounds of a loop, after which its iteration and state are recorded */
#define LIMIT_STEP_NEVER 16 /* codes of errors that a step does not try again */
#define LIMIT_FLOW_NAMES 10000   /* of one namespace */
#define LIMIT_FLOW_NAME_SIZE 254 /* of one of them: the topic of its decisions is one byte longer */
#define LIMIT_FLOW_LISTEN 100    /* signals that one listen takes */
#define LIMIT_PROPERTIES 100     /* named values that the code of a job keeps for people */
#define LIMIT_PROPERTIES_SIZE (64 * 1024) /* bytes of all of them, as JSON */
#define LIMIT_WAITS_SHOWN 20 /* works that `quipu show` names of those that a flow waits for */

/* Instances: agent workflows */
#define LIMIT_INSTANCE_BUFFER 10000                        /* actions; then events are refused */
#define LIMIT_INSTANCE_BUFFER_SIZE (8 * 1024 * 1024)       /* bytes of their texts, likewise */
#define LIMIT_INSTANCE_BATCH 500                           /* actions that one decision executes */
#define LIMIT_INSTANCE_WORKS 2000                          /* of one execute */
#define LIMIT_INSTANCE_TEXT_SIZE (1024 * 1024)             /* properties, an input, an output */
#define LIMIT_INSTANCE_WAIT_MS (3650LL * 24 * 3600 * 1000) /* a later end is no end: ten years */
#define LIMIT_AGENT_LEASE_MS (3600LL * 1000)     /* of a task at an agent, at least; configurable */
#define LIMIT_DECISION_WORKS 5000                /* that one decision asks for; then it is parked */
#define LIMIT_DECISIONS 10000                    /* that agents have in hand, per process */
#define LIMIT_DECISION_MS (60 * 1000)            /* without a call for it: it is given back */
#define LIMIT_DECISION_ENDED_MS (10 * 60 * 1000) /* that one which ended is still answered, */
#define LIMIT_DECISIONS_ENDED 65536              /* and how many of those are known */
#define LIMIT_STREAM_NAMES_SIZE 240              /* an environment and a language, together */

/* Traversals */
#define LIMIT_CARTO_ITEMS 1000000   /* work items of one request */
#define LIMIT_CARTO_LEVELS 200      /* from a root down; deeper is the item's error LEVEL_LIMIT */
#define LIMIT_CARTO_ROOTS 100000    /* of one request that names each */
#define LIMIT_CARTO_OVERRIDES 1000  /* of one request */
#define LIMIT_CARTO_PLANS 64        /* requests that an engine keeps as they were read */
#define LIMIT_CARTO_UNIVERSES 4     /* that an engine keeps in memory */
#define LIMIT_CARTO_PAGE_FACTS 5000 /* of an import, in one commit */
#define LIMIT_CARTO_FORMER_MS (10 * 60 * 1000) /* how long lists stay that an import has replaced */
#define LIMIT_CARTO_RELATIONS 10000            /* of one package version */
#define LIMIT_CARTO_EXCLUSIONS 1000            /* of one item */
#define LIMIT_CARTO_NAME_SIZE 255              /* of a package or a pattern, without its type */
#define LIMIT_CARTO_TYPES 64                   /* that workers serve, of one namespace */
#define LIMIT_CARTO_TYPE_SIZE 32               /* the name of one */
#define LIMIT_CARTO_ADVICE_SIZE 4096           /* that a worker gives with a relationship */
#define LIMIT_CARTO_NEAREST 3                  /* names that an unknown root may have meant */
#define LIMIT_CARTO_SAVED_SIZE (512 * 1024 * 1024) /* of a result that is read from a file */
#define LIMIT_CARTO_WAYS 100                       /* paths that one question is answered with */
#define LIMIT_CARTO_READ_ITEMS                                                                     \
    2000 /* of a result that questions read; of a larger one FORMAT keeps nodes and edges */
#define LIMIT_CARTO_FACT_SIZE (1024 * 1024)
#define LIMIT_CARTO_UNIVERSE_SIZE (1024 * 1024 * 1024) /* of all facts of a universe, in memory */
#define LIMIT_CARTO_KEPT_SIZE                                                                      \
    (256 * 1024 * 1024) /* of fetched facts that an engine keeps in memory */
#define LIMIT_CARTO_GROWN_FACTS                                                                    \
    2000000 /* of a universe that grows; then it goes, when no traversal is open */
#define LIMIT_NPM_NAME_SIZE 214
#define LIMIT_NPM_SPEC_SIZE 2048
#define LIMIT_NPM_VERSION_SIZE 256
#define LIMIT_NPM_PACKUMENT_SIZE (64 * 1024 * 1024)
#define LIMIT_NPM_FRESH_MS (5 * 60 * 1000) /* how long the registry is not asked again */
#define LIMIT_NPM_FETCHES 8                /* at once, of one process */
#define LIMIT_DEB_NAME_SIZE 200
#define LIMIT_DEB_ARCH_SIZE 32
#define LIMIT_DEB_VERSION_SIZE 255
#define LIMIT_DEB_EPOCH_DIGITS 9
#define LIMIT_DEB_STANZA_SIZE (1024 * 1024)

/* Programs that quipu.shell runs */
#define LIMIT_SHELL_COMMANDS 100 /* on the list */
#define LIMIT_SHELL_ARGUMENTS 64
#define LIMIT_SHELL_OUTPUT_SIZE (256 * 1024) /* of stdout and of stderr, each */
#define LIMIT_SHELL_MS (60 * 1000)           /* when nothing is said */
#define LIMIT_SHELL_MOST_MS (3600 * 1000)
#define LIMIT_SHELL_THREADS 8 /* of a server: programs at once, those of --exec included */

/* Checking */
#define LIMIT_CHECK_FINDINGS 1000      /* after which a check stops; configurable */
#define LIMIT_CHECK_PAGE_JOBS 256      /* jobs that are read from one snapshot */
#define LIMIT_CHECK_PAGE_ROWS 500      /* of a table, that are read ahead */
#define LIMIT_CHECK_TEXT_SIZE 512      /* the sentence of a finding */
#define LIMIT_CHECK_LAG_MS (60 * 1000) /* timers and leases may be this late */

/* Server */
#define LIMIT_BODY_SIZE (4 * 1024 * 1024) /* of a request; configurable */
#define LIMIT_BODY_HARD_SIZE (64 * 1024 * 1024)
#define LIMIT_BODY_DROP_SIZE                                                                       \
    (64 * 1024 * 1024) /* beyond the limit: read and dropped, so that its sender sees the answer */
#define LIMIT_BODY_SMALL_SIZE (16 * 1024)     /* of a request: so much is taken in any case */
#define LIMIT_BODIES_SIZE (256 * 1024 * 1024) /* of all requests at a time, beyond that of each */
#define LIMIT_URI_SIZE 4096
#define LIMIT_HEADERS 64
#define LIMIT_HEADER_SIZE (16 * 1024)      /* all headers of a request */
#define LIMIT_HEADER_MS (10 * 1000)        /* until the headers are there */
#define LIMIT_BODY_MS (30 * 1000)          /* until the body is there, and for every */
#define LIMIT_BODY_RATE_SIZE (16 * 1024)   /* of it another second */
#define LIMIT_KEEPALIVE_MS (75 * 1000)     /* between two requests of a connection */
#define LIMIT_SEND_MS (60 * 1000)          /* of a peer that does not read its answer */
#define LIMIT_REQUESTS_PER_CONNECTION 1000 /* then it is closed */
#define LIMIT_CONNECTIONS 20000            /* at a time; configurable */
#define LIMIT_CONNECTIONS_PER_ADDRESS 256  /* where the server listens beyond this machine */
#define LIMIT_HTTP_THREADS 2               /* that take requests apart; configurable */
#define LIMIT_CREW_THREADS 8               /* for requests that wait for the store */
#define LIMIT_CREW_CALLS 4096              /* that wait for one of them */
#define LIMIT_WAIT_MS (60 * 1000)          /* that a request may ask to wait */
#define LIMIT_DRAIN_MS (20 * 1000)         /* for requests in hand, when the server ends */
#define LIMIT_DRAIN_DEAD_MS 100            /* the same, when its engine has ended */
#define LIMIT_LATE_MS 500                  /* more for a request that the store has in hand */
#define LIMIT_METRICS_MS 500               /* for numbers of the store; then without them */
#define LIMIT_BRIEF_MS 800               /* for a request for numbers, in place of LIMIT_CALL_MS */
#define LIMIT_READY_MS 5000              /* a commit so long ago shows that there can be others */
#define LIMIT_READY_STALL_MS 1500        /* at work with the store: then it does not answer */
#define LIMIT_STREAMS 1000               /* event streams at a time */
#define LIMIT_STREAM_PING_MS (15 * 1000) /* between two signs of life of a stream */
#define LIMIT_TOKEN_ID_SIZE 32           /* the part of a token that names it */
#define LIMIT_TOKENS_KNOWN 1024          /* kept in memory */
#define LIMIT_TOKEN_RATE 5000            /* requests per second of one token; configurable */
#define LIMIT_TOKEN_RATE_HARD 1000000    /* above it there is no use in counting */
#define LIMIT_REQUEST_ID_SIZE 128
#define LIMIT_PARAMETERS 16 /* of a query */
#define LIMIT_HOSTS 16      /* names that a server answers to */

/* SQL for people */
#define LIMIT_SQL_SIZE (64 * 1024) /* of a statement */
#define LIMIT_SQL_COLUMNS 100
#define LIMIT_SQL_ROWS 1000 /* of an answer; configurable */
#define LIMIT_SQL_ROWS_HARD 100000
#define LIMIT_SQL_ANSWER_SIZE (32 * 1024 * 1024) /* of it, as JSON */
#define LIMIT_SQL_MS (10 * 1000)                 /* of a statement; configurable */
#define LIMIT_SQL_HARD_MS (60 * 1000)

/* Configuration */
#define LIMIT_CONFIG_SIZE (64 * 1024) /* of the file */
#define LIMIT_CONFIG_ENTRIES 1000     /* settings and tables in it */

/* Mappings of graphs */
#define LIMIT_EXPRESSION_SIZE (8 * 1024)            /* the text of one @pipe */
#define LIMIT_EXPRESSION_DEPTH 64                   /* pipes, lists and maps inside of each other */
#define LIMIT_MAPPING_STEPS 10000                   /* of one evaluation: cells and calls */
#define LIMIT_MAPPING_SIZE (8 * 1024 * 1024)        /* bytes that one evaluation makes */
#define LIMIT_MAPPING_LOOK_SIZE (256 * 1024 * 1024) /* bytes of operands that its calls look at */

/* Ledgers */
#define LIMIT_LEG1_ENTRIES 99
#define LIMIT_LEG2_ENTRIES 99999999
#define LIMIT_LEDGER 999999999999999

static_assert(LIMIT_PAYLOAD_SIZE <= LIMIT_PAYLOAD_HARD_SIZE, "default within hard limit");
static_assert(LIMIT_PAYLOAD_HARD_SIZE <= LIMIT_BUNDLE_SIZE, "a payload fits into a bundle");
static_assert(LIMIT_FLOW_DECISION_SIZE <= LIMIT_BUNDLE_SIZE / 4, "so do a decision and its rows");
static_assert(LIMIT_FLOW_DECISION_SIZE > LIMIT_PAYLOAD_SIZE, "any input can be given");
static_assert(LIMIT_FLOW_NAME_SIZE + 1 == LIMIT_NAME_SIZE,
              "the topic of decisions is a name with a mark");
static_assert(LIMIT_LOCK_MS < LIMIT_ANSWER_MS, "who waits for a row is answered");
static_assert(LIMIT_HOST_CALLBACK_MS < LIMIT_SILENCE_MS, "a host callback may be silent");
static_assert(LIMIT_CHECK_PAGE_ROWS <= LIMIT_PAGE_ROWS, "a page's rows are looked up at once");
static_assert(LIMIT_JSON_STRING_SIZE <= LIMIT_MAPPING_SIZE, "a mapping makes a string");
static_assert(LIMIT_PAYLOAD_SIZE < LIMIT_BODY_SIZE, "a payload fits into a request");
static_assert(LIMIT_RUN_LEASE_MS / 3 < LIMIT_READY_MS,
              "a renewed lease shows it on a shared store");
static_assert(LIMIT_BUNDLE_SIZE < LIMIT_ARENA_SIZE, "a bundle fits into an arena");

#endif
