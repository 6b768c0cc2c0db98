/* functions.c - start, signal, complete and fail as SQL functions, for transactions of the application's own
 *
 * They write what the store's ops would write for the same call, and nothing that needs a decision of
 * the engine: that is left to the message which each of them puts into the engine's stream
 * (kernel/outside.h).
 *
 *   start     the job with its id (job_create), and START, under the GUID that owns the job
 *   signal    SIGNAL, a message of the system's, under the GUID of the signal
 *   complete  the task goes, RESULT comes with the GUID of its response, as when a worker answers;
 *   fail      likewise, with the code of an error
 *
 *   I1  all of it is the application's transaction: it is there when that commits, and never was when not
 *   I2  nothing that many write is locked before COMMIT. Counters of jobs and lanes are noted in `tally`
 *       and moved by a trigger that is deferred to the commit, in the order in which engines move them;
 *       so an application that thinks between two statements is in nobody's way
 *   I3  complete locks its message, and the job only against being deleted (KEY SHARE). An engine that has
 *       decided something else about the task meanwhile finds that the message's revision has changed, and
 *       decides anew; one that was faster leaves no message, or another token: stale
 *   I4  what comes in is checked as strictly as by the API; the engine checks once more what it is given
 *
 * If the application, its connection or the server dies before COMMIT, nothing happened, neither here nor in
 * the application's tables. If it dies after it, the message is in the stream, and some engine takes it.
 *
 * They run with the rights of their owner (SECURITY DEFINER), with a search path of their own in which
 * temporary tables come last, and nobody may call them until it is granted: an application needs no right
 * on any table.
 *
 * This is a migration: one that was released is not edited. A limit that changes needs another one.
 */
#include "store/postgres/postgres_internal.h"

static_assert(LIMIT_NAME_SIZE == 255 && LIMIT_ID_SIZE == 255 && LIMIT_PAYLOAD_SIZE == 2097152 &&
                  LIMIT_JSON_DEPTH == 64 && LIMIT_JSON_NUMBER_SIZE == 64 &&
                  LIMIT_TIMER_MS == 315619200000 && LIMIT_SIGNAL_TTL_MS == 604800000 &&
                  LIMIT_COUNTER_SHARDS == 16 && LIMIT_ERROR_TEXT_SIZE == 4096,
              "the functions say the same");
static_assert(MSG_READY == 1 && MSG_HELD == 3 && OWNER_SYSTEM == 2 && HEAD_FILLING == 2 &&
                  STATUS_RUNNING == 0 && JOB_OPEN == 0,
              "the functions say the same");

#define PINNED " SET search_path FROM CURRENT AS $$\n"
#define DEFINER " LANGUAGE plpgsql SECURITY DEFINER" PINNED

/* clang-format off: SQL reads better as it is written */
/* False: the same signal waits for an engine already. `place`: what an id is of; `message`: see kernel/outside.h. */
#define SIGNAL_FUNCTION(create, place, message)                                                                     \
    create                                                                                                          \
        "signal(topic text, key text, payload text, id text DEFAULT NULL,"                                          \
        " ttl interval DEFAULT NULL, namespace text DEFAULT 'default') RETURNS boolean" DEFINER                     \
        "DECLARE\n"                                                                                                 \
        "  space bigint := space_of(namespace);\n"                                                                  \
        "  guid bytea;\n"                                                                                           \
        "  ttl_ms numeric := coalesce(floor(extract(epoch FROM ttl) * 1000), 604800000);\n"                         \
        "  ord bigint;\n"                                                                                           \
        "BEGIN\n"                                                                                                   \
        "  PERFORM check_name('topic', topic);\n"                                                                   \
        "  PERFORM check_id('key', key);\n"                                                                         \
        "  IF id IS NOT NULL THEN\n"                                                                                \
        "    PERFORM check_id('signal id', id);\n"                                                                  \
        "  END IF;\n"                                                                                               \
        "  PERFORM check_json('payload', payload);\n"                                                               \
        "  IF ttl_ms < 1 OR ttl_ms > 315619200000 THEN\n"                                                           \
        "    RAISE EXCEPTION 'ttl: %, it is a millisecond to ten years', ttl USING ERRCODE = 'QP004';\n"            \
        "  END IF;\n"                                                                                               \
        "  guid := CASE WHEN id IS NULL THEN uuid_send(gen_random_uuid())\n"                                        \
        "    ELSE guid_of(" place ", convert_to(id, 'UTF8')) END;\n"                                                \
        "  ord := nextval('orders');\n"                                                                             \
        "  INSERT INTO msg(ns, job, guid, owner, kind, topic, addr, payload, limit_key, ord, \"at\", state, rev)\n" \
        "    VALUES(space, 0, guid, 2, 8, 'quipu:engine', convert_to(topic, 'UTF8'),\n"                             \
        "      " message ",\n"                                                                                      \
        "      '', ord, clock_ms(), 1, 1) ON CONFLICT DO NOTHING;\n"                                                \
        "  IF NOT FOUND THEN\n"                                                                                     \
        "    RETURN false;\n"                                                                                       \
        "  END IF;\n"                                                                                               \
        "  INSERT INTO tally(id, ns) VALUES(ord, space);\n"                                                         \
        "  RETURN true;\n"                                                                                          \
        "END $$"

/* start, as it was and as it is: with what the topic of a graph adds to it.
 *
 * The id's row decides between two who start the same: the second waits for the first, and compares. A job that is deleted
 * between the two looks makes it look again. */
#define START_FUNCTION(create, declare, find, columns, values)                                                       \
    create                                                                                                           \
        "start(topic text, payload text, id text DEFAULT NULL, namespace text DEFAULT 'default')"                    \
        " RETURNS text" DEFINER "DECLARE\n"                                                                          \
        "  space bigint := space_of(namespace);\n"                                                                   \
        "  given_id text := coalesce(id, gen_random_uuid()::text);\n"                                                \
        "  name bytea := convert_to(topic, 'UTF8');\n"                                                               \
        "  body bytea := convert_to(payload, 'UTF8');\n"                                                             \
        "  id_bytes bytea := convert_to(given_id, 'UTF8');\n"                                                        \
        "  hash bytea;\n"                                                                                            \
        "  found_hash bytea;\n"                                                                                      \
        "  owner bytea;\n"                                                                                           \
        "  number bigint;\n"                                                                                         \
        "  ord bigint;\n"                                                                                            \
        "  now_ms bigint := clock_ms();\n" declare "BEGIN\n"                                                         \
        "  PERFORM check_name('topic', topic);\n"                                                                    \
        "  IF topic LIKE 'quipu:%' THEN\n"                                                                           \
        "    RAISE EXCEPTION 'topic: names that begin with quipu: are the engine''s own' USING ERRCODE = 'QP004';\n" \
        "  END IF;\n"                                                                                                \
        "  PERFORM check_id('job id', given_id);\n"                                                                  \
        "  PERFORM check_json('input', payload);\n"                                                                  \
        "  hash := guid_of(name, body);\n"                                                                           \
        "  owner := guid_of(id_bytes, hash);\n"                                                                      \
        "  number := nextval('ids');\n" find "  FOR i IN 1..10 LOOP\n"                                               \
        "    INSERT INTO job_name(ns, jid, job, rev) VALUES(space, id_bytes, number, 1) ON CONFLICT DO NOTHING;\n"   \
        "    EXIT WHEN FOUND;\n"                                                                                     \
        "    SELECT j.body_hash INTO found_hash FROM job_name n JOIN job j ON j.ns = n.ns AND j.job = n.job\n"       \
        "      WHERE n.ns = space AND n.jid = id_bytes;\n"                                                           \
        "    IF FOUND AND found_hash = hash THEN\n"                                                                  \
        "      RETURN given_id;\n"                                                                                   \
        "    ELSIF FOUND OR i = 10 THEN\n"                                                                           \
        "      RAISE EXCEPTION 'start ''%'': a job with this id was started with another input', given_id\n"         \
        "        USING ERRCODE = 'QP002',\n"                                                                         \
        "        HINT = 'The same id means the same job: give another id, or the same topic and the same bytes.';\n" \
        "    END IF;\n"                                                                                              \
        "  END LOOP;\n"                                                                                              \
        "  INSERT INTO job(ns, job, jid, workflow, owner_guid, body_hash, created_at, updated_at, rev" columns       \
        ")\n"                                                                                                        \
        "    VALUES(space, number, id_bytes, name, owner, hash, now_ms, now_ms, 1" values ");\n"                     \
        "  ord := nextval('orders');\n"                                                                              \
        "  INSERT INTO msg(ns, job, guid, kind, topic, addr, payload, limit_key, ord, \"at\", state, rev)\n"         \
        "    VALUES(space, number, owner, 7, 'quipu:engine', 'trigger,0', body, '', ord, now_ms, 1, 1);\n"           \
        "  INSERT INTO tally(id, ns, workflow) VALUES(ord, space, name);\n"                                          \
        "  RETURN given_id;\n"                                                                                       \
        "END $$"

const char *const postgres_functions[] = {
    "CREATE FUNCTION check_store() RETURNS void LANGUAGE plpgsql" PINNED "BEGIN\n"
    /* As every commit of an engine does: a move has this lock alone, so none can begin before we end. */
    "  IF NOT pg_try_advisory_xact_lock_shared(58553134, 'head'::regclass::oid::int) THEN\n"
    "    RAISE EXCEPTION 'this store is being moved'\n"
    "      USING ERRCODE = 'QP006', HINT = 'Wait until it is done, and use the store that it was moved to.';\n"
    "  END IF;\n"
    "  IF EXISTS (SELECT FROM head WHERE clean >= 2) THEN\n"
    "    RAISE EXCEPTION 'this store was moved away, or is being filled by a move'\n"
    "      USING ERRCODE = 'QP006', HINT = 'Use the store that it was moved to.';\n"
    "  END IF;\n"
    "END $$",

    /* What a transaction has added to counters of jobs and to lanes. `workflow`: one job more is running;
     * `topic`: one task of it is no longer held. Each row is also one message more for the engine. */
    "CREATE TABLE tally("
    "  id bigint NOT NULL PRIMARY KEY, ns bigint NOT NULL, workflow bytea, topic bytea, limit_key bytea)"
    "  WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000)",

    /* Once per transaction: the first row finds them all, the others are gone when their turn comes. */
    "CREATE FUNCTION tally_settle() RETURNS trigger" DEFINER "DECLARE\n"
    "  noted tally[];\n"
    "  d record;\n"
    "BEGIN\n"
    "  IF NOT EXISTS (SELECT FROM tally t WHERE t.id = NEW.id) THEN\n"
    "    RETURN NULL;\n"
    "  END IF;\n"
    "  PERFORM check_store();\n" /* it may have been moved since */
    "  SELECT array_agg(t) INTO noted FROM tally t;\n"
    "  DELETE FROM tally;\n"
    "  INSERT INTO counter AS r(ns, workflow, status, shard, n, rev)\n"
    "    SELECT t.ns, t.workflow, 0, pg_backend_pid() % 16, count(*), 1 FROM unnest(noted) t\n"
    "    WHERE t.workflow IS NOT NULL GROUP BY t.ns, t.workflow ORDER BY t.ns, t.workflow\n"
    "  ON CONFLICT (ns, workflow, status, shard) DO UPDATE SET n = r.n + excluded.n, rev = r.rev + 1;\n"
    "  FOR d IN\n"
    "    SELECT t.ns, bytea 'quipu:engine' AS topic, bytea '' AS limit_key, count(*) AS ready, 0 AS held\n"
    "      FROM unnest(noted) t GROUP BY t.ns\n"
    "    UNION ALL SELECT t.ns, t.topic, t.limit_key, 0, count(*) FROM unnest(noted) t\n"
    "      WHERE t.topic IS NOT NULL GROUP BY t.ns, t.topic, t.limit_key\n"
    "    ORDER BY 1, 2, 3\n"
    "  LOOP\n"
    "    IF d.held > 0 THEN\n"
    "      UPDATE lane r SET held = r.held - d.held, rev = r.rev + 1\n"
    "        WHERE r.ns = d.ns AND r.topic = d.topic AND r.limit_key = d.limit_key;\n"
    "      IF NOT FOUND THEN\n"
    "        RAISE EXCEPTION 'a task is held, and nothing counts it' USING ERRCODE = 'data_corrupted';\n"
    "      END IF;\n"
    "    ELSE\n"
    "      INSERT INTO lane AS r(ns, topic, limit_key, ready, served, rev)\n"
    "        VALUES(d.ns, d.topic, d.limit_key, d.ready, nextval('orders'), 1)\n"
    "      ON CONFLICT (ns, topic, limit_key) DO UPDATE\n"
    "        SET ready = r.ready + excluded.ready, own = greatest(r.own, 0), rev = r.rev + 1;\n"
    "    END IF;\n"
    "  END LOOP;\n"
    /* The application's transaction, not an engine's: it may say so to all who listen. */
    "  PERFORM pg_notify(TG_TABLE_SCHEMA, '');\n"
    "  RETURN NULL;\n"
    "END $$",
    "CREATE CONSTRAINT TRIGGER tally_settle AFTER INSERT ON tally DEFERRABLE INITIALLY DEFERRED"
    "  FOR EACH ROW EXECUTE FUNCTION tally_settle()",

    /* base/hash.h: hash_guid, for a first part of at most 255 bytes. */
    "CREATE FUNCTION guid_of(a bytea, b bytea) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT AS $$\n"
    "  SELECT substr(sha256(set_byte('\\x0000000000000000'::bytea, 0, octet_length(a)) || a || b), 1, 16)\n"
    "$$",

    "CREATE FUNCTION clock_ms() RETURNS bigint LANGUAGE sql" PINNED
    "  SELECT greatest(clock, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM head\n"
    "$$",

    "CREATE FUNCTION space_of(namespace text) RETURNS bigint LANGUAGE plpgsql" PINNED "DECLARE\n"
    "  number bigint := (SELECT s.ns FROM space s WHERE s.name = convert_to(namespace, 'UTF8'));\n"
    "BEGIN\n"
    "  PERFORM check_store();\n"
    "  IF number IS NULL THEN\n"
    "    RAISE EXCEPTION 'namespace ''%'': there is none', namespace\n"
    "      USING ERRCODE = 'QP006', HINT = 'A namespace is made by the first engine that is opened in it.';\n"
    "  END IF;\n"
    "  RETURN number;\n"
    "END $$",

    "CREATE FUNCTION check_size(what text, given text, most int) RETURNS void LANGUAGE plpgsql" PINNED
    "BEGIN\n"
    "  IF given IS NULL OR given = '' THEN\n"
    "    RAISE EXCEPTION '%: is empty', what USING ERRCODE = 'QP004';\n"
    "  END IF;\n"
    "  IF octet_length(given) > most THEN\n"
    "    RAISE EXCEPTION '%: % bytes, the limit is %', what, octet_length(given), most\n"
    "      USING ERRCODE = 'QP005';\n"
    "  END IF;\n"
    "END $$",

    "CREATE FUNCTION check_name(what text, name text) RETURNS void LANGUAGE plpgsql" PINNED
    "BEGIN\n"
    "  PERFORM check_size(what, name, 255);\n"
    "  IF name COLLATE \"C\" !~ '^[A-Za-z0-9._~:-]+$' THEN\n"
    "    RAISE EXCEPTION '%: ''%'' has a character that is none of A-Z a-z 0-9 . _ ~ : -', what, name\n"
    "      USING ERRCODE = 'QP004';\n"
    "  END IF;\n"
    "END $$",

    "CREATE FUNCTION check_id(what text, id text) RETURNS void LANGUAGE plpgsql" PINNED "BEGIN\n"
    "  PERFORM check_size(what, id, 255);\n"
    "  IF id COLLATE \"C\" ~ '[\\u0001-\\u001F\\u007F-\\u009F]' THEN\n"
    "    RAISE EXCEPTION '%: has a control character', what USING ERRCODE = 'QP004';\n"
    "  END IF;\n"
    "  IF id COLLATE \"C\" ~ '^[ \\u00A0\\u1680\\u2000-\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000]'\n"
    "     OR id COLLATE \"C\" ~ '[ \\u00A0\\u1680\\u2000-\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000]$' THEN\n"
    "    RAISE EXCEPTION '%: begins or ends with white space', what USING ERRCODE = 'QP004';\n"
    "  END IF;\n"
    "END $$",

    /* JSON as we take it: jsonb refuses bad escapes, but takes a key twice, keeping one of the two, and any
     * depth. Without its strings a text has as many colons as keys, and its brackets say how deep it is. */
    "CREATE FUNCTION check_json(what text, given text) RETURNS void LANGUAGE plpgsql" PINNED
    "DECLARE\n"
    "  taken text;\n"
    "  bare text;\n"
    "  strings CONSTANT text := '\"(?:[^\"\\\\]|\\\\.)*\"';\n"
    "BEGIN\n"
    "  PERFORM check_size(what, given, 2097152);\n"
    "  BEGIN\n"
    "    taken := given::jsonb::text;\n"
    "  EXCEPTION WHEN data_exception OR program_limit_exceeded THEN\n"
    "    RAISE EXCEPTION '%: is not JSON: %', what, SQLERRM USING ERRCODE = 'QP004';\n"
    "  END;\n"
    "  bare := regexp_replace(given, strings, '', 'g');\n"
    "  taken := regexp_replace(taken, strings, '', 'g');\n"
    "  IF length(bare) - length(replace(bare, ':', '')) <> length(taken) - length(replace(taken, ':', '')) THEN\n"
    "    RAISE EXCEPTION '%: an object has a key twice', what USING ERRCODE = 'QP004';\n"
    "  END IF;\n"
    "  IF bare ~ '[-+.0-9eE]{65}' THEN\n"
    "    RAISE EXCEPTION '%: a number has more than 64 characters', what USING ERRCODE = 'QP005';\n"
    "  END IF;\n"
    "  IF bare ~ '[eE]\\+?0*[1-9][0-9]{2}' AND EXISTS (\n"
    "      SELECT FROM regexp_matches(bare, '[0-9][-+.0-9eE]*', 'g') m\n"
    "      WHERE m[1]::numeric >= 1.7976931348623158079e308) THEN\n"
    "    RAISE EXCEPTION '%: a number is too large for a double', what USING ERRCODE = 'QP004';\n"
    "  END IF;\n"
    "  bare := regexp_replace(bare, '[^][{}]', '', 'g');\n"
    "  FOR i IN 1..64 LOOP\n"
    "    EXIT WHEN bare = '';\n"
    "    bare := regexp_replace(bare, '\\[\\]|\\{\\}', '', 'g');\n"
    "  END LOOP;\n"
    "  IF bare <> '' THEN\n"
    "    RAISE EXCEPTION '%: is nested deeper than 64', what USING ERRCODE = 'QP005';\n"
    "  END IF;\n"
    "END $$",

    START_FUNCTION("CREATE FUNCTION ", , , , ),

    SIGNAL_FUNCTION(
        "CREATE FUNCTION ", "convert_to(topic, 'UTF8')",
        "convert_to(format(E'%s %s\\n', ttl_ms::bigint, octet_length(key)) || key || payload, 'UTF8')"),

    /* The message that a token of qp_task_token is of, locked; none: the token is stale. The job first: who
     * deletes one waits for us, everybody else goes on. */
    "CREATE FUNCTION task_of(token text) RETURNS msg LANGUAGE plpgsql" PINNED "DECLARE\n"
    "  part text[] := regexp_match(token, '^t1\\.([0-9]{1,18})\\.([0-9]{1,18})\\.([0-9a-f]{32})\\.([0-9]{1,18})$');\n"
    "  task msg;\n"
    "BEGIN\n"
    "  IF part IS NULL THEN\n"
    "    RAISE EXCEPTION 'token: is not one of a task' USING ERRCODE = 'QP004',\n"
    "      HINT = 'Give what qp_task_token said, as it is.';\n"
    "  END IF;\n"
    "  PERFORM check_store();\n"
    "  PERFORM FROM job j WHERE j.ns = part[1]::bigint AND j.job = part[2]::bigint AND j.state = 0 FOR KEY SHARE;\n"
    "  IF FOUND THEN\n"
    "    SELECT m.* INTO task FROM msg m WHERE m.ns = part[1]::bigint AND m.job = part[2]::bigint\n"
    "      AND m.guid = decode(part[3], 'hex') AND m.token = part[4]::bigint AND m.state = 3 AND m.kind = 3\n"
    "      FOR UPDATE;\n"
    "  END IF;\n"
    "  IF NOT FOUND THEN\n"
    "    RAISE EXCEPTION 'the task is no longer yours: it was answered, or given to another, or its job has ended'\n"
    "      USING ERRCODE = 'QP003', HINT = 'Roll back: nothing that was done for it counts.';\n"
    "  END IF;\n"
    "  RETURN task;\n"
    "END $$",

    "CREATE FUNCTION answer(token text, output text, code bigint) RETURNS void LANGUAGE plpgsql" PINNED
    "DECLARE\n"
    "  task msg := task_of(token);\n"
    "  ord bigint := nextval('orders');\n"
    "BEGIN\n"
    "  DELETE FROM msg m WHERE m.ns = task.ns AND m.job = task.job AND m.guid = task.guid;\n"
    "  INSERT INTO msg(ns, job, guid, kind, topic, addr, payload, code, limit_key, ord, \"at\", state, rev)\n"
    "    VALUES(task.ns, task.job, guid_of(task.guid, 'response'), 9, 'quipu:engine', task.addr,\n"
    "      convert_to(output, 'UTF8'), answer.code, '', ord, clock_ms(), 1, 1);\n"
    "  INSERT INTO tally(id, ns, topic, limit_key) VALUES(ord, task.ns, task.topic, task.limit_key);\n"
    "END $$",

    "CREATE FUNCTION complete(token text, output text) RETURNS void" DEFINER "BEGIN\n"
    "  PERFORM check_json('output', output);\n"
    "  PERFORM answer(token, output, 200);\n"
    "END $$",

    /* For good: whether it is tried again is the engine's decision, and asked for through the API. */
    "CREATE FUNCTION fail(token text, error text, code int DEFAULT 500) RETURNS void" DEFINER
    "BEGIN\n"
    "  PERFORM check_size('error', error, 4096);\n"
    "  IF code IS NULL OR code < 400 OR code > 599 THEN\n"
    "    RAISE EXCEPTION 'code: %, it is 400 to 599', code USING ERRCODE = 'QP004';\n"
    "  END IF;\n"
    "  PERFORM answer(token, format('{\"message\":%s,\"code\":%s}', to_json(error), code), code);\n"
    "END $$",

    /* The same for who has jsonb; the bytes are those that PostgreSQL prints. */
    "CREATE FUNCTION start(topic text, payload jsonb, id text DEFAULT NULL, namespace text DEFAULT 'default')"
    " RETURNS text LANGUAGE sql SECURITY DEFINER" PINNED
    "  SELECT start(topic, payload::text, id, namespace)\n"
    "$$",
    "CREATE FUNCTION signal(topic text, key text, payload jsonb, id text DEFAULT NULL,"
    " ttl interval DEFAULT NULL, namespace text DEFAULT 'default') RETURNS boolean"
    " LANGUAGE sql SECURITY DEFINER" PINNED
    "  SELECT signal(topic, key, payload::text, id, ttl, namespace)\n"
    "$$",
    "CREATE FUNCTION complete(token text, output jsonb) RETURNS void LANGUAGE sql SECURITY DEFINER" PINNED
    "  SELECT complete(token, output::text)\n"
    "$$",
    "REVOKE ALL ON FUNCTION check_store(), tally_settle(), guid_of(bytea, bytea), clock_ms(), space_of(text),"
    " check_size(text, text, int), check_name(text, text), check_id(text, text), check_json(text, text),"
    " task_of(text), start(text, text, text, text), start(text, jsonb, text, text),"
    " signal(text, text, text, text, interval, text), signal(text, text, jsonb, text, interval, text),"
    " answer(text, text, bigint), complete(text, text), complete(text, jsonb), fail(text, text, int)"
    " FROM PUBLIC",
    NULL,
};

/* Number 4: a topic that belongs to a graph starts a job of it, of the version that is active. Kind 1 is that of graphs. */
const char *const postgres_start_graphs[] = {
    START_FUNCTION(
        "CREATE OR REPLACE FUNCTION ", "  graph bytea;\n",
        "  SELECT t.app || '\\x2f'::bytea || t.version INTO graph FROM app_topic t\n"
        "    WHERE t.ns = space AND t.kind = 0 AND t.topic = name;\n"
        "  IF topic LIKE '.%' THEN\n"
        "    RAISE EXCEPTION 'topic ''%'' is private: only other graphs start it', topic USING ERRCODE = 'QP004';\n"
        "  END IF;\n",
        ", kind, version", ", CASE WHEN graph IS NULL THEN 0 ELSE 1 END, graph"),
    NULL};

/* Number 6: the id of a signal is of its topic and key, and the engine learns that there is one. */
const char *const postgres_signal_ids[] = {
    SIGNAL_FUNCTION(
        "CREATE OR REPLACE FUNCTION ",
        "guid_of(convert_to(topic, 'UTF8'), convert_to(key, 'UTF8'))",
        "convert_to(format(E'%s %s%s\\n', ttl_ms::bigint, octet_length(key),\n"
        "        CASE WHEN id IS NULL THEN '' ELSE ' id' END) || key || payload, 'UTF8')"),
    NULL};
/* clang-format on */
