/* migrations.c - the schema of the PostgreSQL store, by number, forward only
 *
 * As in sqlite/migrations.c: one that was released is never edited, the next change is the next
 * number, and a test compares the columns with rows.def. `meta` has the number of the last one that
 * ran, and which cluster the tables are in; all that are missing run in one transaction.
 *
 * Texts are bytea: they are bytes that we compare and order as bytes, and PostgreSQL's text takes
 * neither a NUL nor what is not UTF-8. Rows that change leave room on their pages (fillfactor), so
 * that a change needs no entry in any index; tables whose rows come and go all the time are vacuumed
 * by their count, not by their size. A lane is found by its topic: no index has a column of it that
 * changes.
 *
 * Functions keep the search path that they are made under: temporary tables, which anybody may make, come
 * last in it.
 */
#include "store/postgres/postgres_internal.h"

/* clang-format off: SQL reads better as it is written */
/* 1: all that the store names from the start. The sequences hand out blocks, see postgres_number. */
static const char *const migration_1[] = {
    "CREATE TABLE space("
    "  ns bigint NOT NULL, name bytea, created_at bigint NOT NULL DEFAULT 0, rev bigint NOT NULL,"
    "  PRIMARY KEY(ns))",
    "CREATE TABLE head("
    "  ns bigint NOT NULL, pos bigint NOT NULL DEFAULT 0, ord bigint NOT NULL DEFAULT 0,"
    "  clock bigint NOT NULL DEFAULT 0, next_id bigint NOT NULL DEFAULT 0, clean bigint NOT NULL DEFAULT 0,"
    "  rev bigint NOT NULL, PRIMARY KEY(ns)) WITH (fillfactor=50)",
    "CREATE TABLE node("
    "  ns bigint NOT NULL, epoch bigint NOT NULL, name bytea, started_at bigint NOT NULL DEFAULT 0,"
    "  lease_until bigint NOT NULL DEFAULT 0, state bigint NOT NULL DEFAULT 0, intent bytea,"
    "  rev bigint NOT NULL, PRIMARY KEY(ns,epoch)) WITH (fillfactor=50, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=500)",
    "CREATE TABLE job("
    "  ns bigint NOT NULL, job bigint NOT NULL, jid bytea, kind bigint NOT NULL DEFAULT 0, workflow bytea,"
    "  version bytea, custom_id bytea, parent_job bigint NOT NULL DEFAULT 0, parent_addr bytea,"
    "  parent_guid bytea, forked_from bytea, owner_guid bytea, body_hash bytea,"
    "  priority bigint NOT NULL DEFAULT 0, limit_key bytea, threshold bigint NOT NULL DEFAULT 0,"
    "  created_at bigint NOT NULL DEFAULT 0, sem bigint NOT NULL DEFAULT 0 CHECK(sem>=0),"
    "  opened bigint NOT NULL DEFAULT 0, closed_by bytea, completions bigint NOT NULL DEFAULT 0,"
    "  seq bigint NOT NULL DEFAULT 0, paused bigint NOT NULL DEFAULT 0, cancelled bigint NOT NULL DEFAULT 0,"
    "  parked bytea, updated_at bigint NOT NULL DEFAULT 0, closed_at bigint NOT NULL DEFAULT 0, error bytea,"
    "  fingerprint bytea, output bytea, state bigint NOT NULL DEFAULT 0, status bigint NOT NULL DEFAULT 0,"
    "  expire_at bigint NOT NULL DEFAULT 0, rev bigint NOT NULL, PRIMARY KEY(ns,job)) WITH (fillfactor=50)",
    "CREATE TABLE job_name("
    "  ns bigint NOT NULL, jid bytea NOT NULL, job bigint NOT NULL DEFAULT 0, rev bigint NOT NULL,"
    "  PRIMARY KEY(ns,jid))",
    "CREATE TABLE job_custom("
    "  ns bigint NOT NULL, workflow bytea NOT NULL, custom_id bytea NOT NULL, job bigint NOT NULL DEFAULT 0,"
    "  rev bigint NOT NULL, PRIMARY KEY(ns,workflow,custom_id))",
    "CREATE TABLE attr("
    "  ns bigint NOT NULL, job bigint NOT NULL, name bytea NOT NULL, \"value\" bytea, rev bigint NOT NULL,"
    "  PRIMARY KEY(ns,job,name))",
    "CREATE TABLE counter("
    "  ns bigint NOT NULL, workflow bytea NOT NULL, status bigint NOT NULL, shard bigint NOT NULL,"
    "  n bigint NOT NULL DEFAULT 0, rev bigint NOT NULL, PRIMARY KEY(ns,workflow,status,shard)) WITH (fillfactor=50, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=500)",
    "CREATE TABLE act("
    "  ns bigint NOT NULL, job bigint NOT NULL, addr bytea NOT NULL, kind bigint NOT NULL DEFAULT 0,"
    "  category bigint NOT NULL DEFAULT 0, cyclic bigint NOT NULL DEFAULT 0, parent_guid bytea, topic bytea,"
    "  policy bytea, input bytea, \"at\" bigint NOT NULL DEFAULT 0, seq bigint NOT NULL DEFAULT 0,"
    "  pos bigint NOT NULL DEFAULT 0,"
    "  ledger bigint NOT NULL DEFAULT 0 CHECK(ledger BETWEEN 0 AND 999999999999999),"
    "  attempt bigint NOT NULL DEFAULT 0, escalated bigint NOT NULL DEFAULT 0, error bytea,"
    "  folded_n bigint NOT NULL DEFAULT 0, folded_delta bigint NOT NULL DEFAULT 0, guid bytea,"
    "  guid_ledger bigint NOT NULL DEFAULT 0 CHECK(guid_ledger BETWEEN 0 AND 999999999999999),"
    "  n bigint NOT NULL DEFAULT 0, delta bigint NOT NULL DEFAULT 0, code bigint NOT NULL DEFAULT 0,"
    "  output bytea, guid_at bigint NOT NULL DEFAULT 0, guid_seq bigint NOT NULL DEFAULT 0,"
    "  guid_pos bigint NOT NULL DEFAULT 0, guid_rows bigint NOT NULL DEFAULT 0, rev bigint NOT NULL,"
    "  PRIMARY KEY(ns,job,addr)) WITH (fillfactor=50)",
    "CREATE TABLE guid("
    "  ns bigint NOT NULL, job bigint NOT NULL, addr bytea NOT NULL, guid bytea NOT NULL,"
    "  \"at\" bigint NOT NULL DEFAULT 0, seq bigint NOT NULL DEFAULT 0, pos bigint NOT NULL DEFAULT 0,"
    "  ledger bigint NOT NULL DEFAULT 0 CHECK(ledger BETWEEN 0 AND 999999999999999),"
    "  n bigint NOT NULL DEFAULT 0, delta bigint NOT NULL DEFAULT 0, code bigint NOT NULL DEFAULT 0,"
    "  output bytea, rev bigint NOT NULL, PRIMARY KEY(ns,job,addr,guid)) WITH (fillfactor=80)",
    "CREATE TABLE sem("
    "  ns bigint NOT NULL, job bigint NOT NULL, scope bigint NOT NULL, opening bigint NOT NULL DEFAULT 0,"
    "  threshold bigint NOT NULL DEFAULT 0, owner_addr bytea, owner_guid bytea, topic bytea,"
    "  \"count\" bigint NOT NULL DEFAULT 0 CHECK(\"count\">=0), closed_by bytea, rev bigint NOT NULL,"
    "  PRIMARY KEY(ns,job,scope)) WITH (fillfactor=80)",
    "CREATE TABLE move("
    "  ns bigint NOT NULL, job bigint NOT NULL, scope bigint NOT NULL, guid bytea NOT NULL, addr bytea,"
    "  delta bigint NOT NULL DEFAULT 0, rev bigint NOT NULL, PRIMARY KEY(ns,job,scope,guid))",
    "CREATE TABLE msg("
    "  ns bigint NOT NULL, job bigint NOT NULL, guid bytea NOT NULL, owner bigint NOT NULL DEFAULT 0,"
    "  kind bigint NOT NULL DEFAULT 0, topic bytea, addr bytea, parent_guid bytea, payload bytea,"
    "  code bigint NOT NULL DEFAULT 0, priority bigint NOT NULL DEFAULT 0, limit_key bytea,"
    "  ord bigint NOT NULL DEFAULT 0, \"at\" bigint NOT NULL DEFAULT 0, token bigint NOT NULL DEFAULT 0,"
    "  tries bigint NOT NULL DEFAULT 0, worker bytea, error bytea, state bigint NOT NULL DEFAULT 0,"
    "  wake_at bigint NOT NULL DEFAULT 0, holder bigint NOT NULL DEFAULT 0, rev bigint NOT NULL,"
    "  PRIMARY KEY(ns,job,guid)) WITH (fillfactor=80, autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=1000)",
    "CREATE TABLE lane("
    "  ns bigint NOT NULL, topic bytea NOT NULL, limit_key bytea NOT NULL, own bigint NOT NULL DEFAULT 0,"
    "  ready bigint NOT NULL DEFAULT 0 CHECK(ready>=0), held bigint NOT NULL DEFAULT 0 CHECK(held>=0),"
    "  \"max\" bigint NOT NULL DEFAULT 0, served bigint NOT NULL DEFAULT 0, rev bigint NOT NULL,"
    "  PRIMARY KEY(ns,topic,limit_key)) WITH (fillfactor=50, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=500)",
    "CREATE TABLE hook("
    "  ns bigint NOT NULL, topic bytea NOT NULL, hkey bytea NOT NULL, waiting bigint NOT NULL DEFAULT 0,"
    "  pending bigint NOT NULL DEFAULT 0, pending_size bigint NOT NULL DEFAULT 0, rev bigint NOT NULL,"
    "  PRIMARY KEY(ns,topic,hkey)) WITH (fillfactor=70)",
    "CREATE TABLE hook_wait("
    "  ns bigint NOT NULL, topic bytea NOT NULL, hkey bytea NOT NULL, seq bigint NOT NULL,"
    "  job bigint NOT NULL DEFAULT 0, addr bytea, parent_guid bytea, msg_topic bytea,"
    "  keep bigint NOT NULL DEFAULT 0, \"at\" bigint NOT NULL DEFAULT 0, rev bigint NOT NULL,"
    "  PRIMARY KEY(ns,topic,hkey,seq))",
    "CREATE TABLE hook_sig("
    "  ns bigint NOT NULL, topic bytea NOT NULL, hkey bytea NOT NULL, seq bigint NOT NULL, guid bytea,"
    "  payload bytea, code bigint NOT NULL DEFAULT 0, keep bigint NOT NULL DEFAULT 0,"
    "  expire_at bigint NOT NULL DEFAULT 0, \"at\" bigint NOT NULL DEFAULT 0, rev bigint NOT NULL,"
    "  PRIMARY KEY(ns,topic,hkey,seq))",
    "CREATE TABLE key("
    "  ns bigint NOT NULL, scope bigint NOT NULL, name bytea NOT NULL, capacity bigint NOT NULL DEFAULT 0,"
    "  held bigint NOT NULL DEFAULT 0 CHECK(held>=0), waiting bigint NOT NULL DEFAULT 0,"
    "  rev bigint NOT NULL, PRIMARY KEY(ns,scope,name)) WITH (fillfactor=70)",
    "CREATE TABLE key_hold("
    "  ns bigint NOT NULL, scope bigint NOT NULL, name bytea NOT NULL, token bigint NOT NULL,"
    "  job bigint NOT NULL DEFAULT 0, addr bytea, guid bytea, units bigint NOT NULL DEFAULT 0,"
    "  \"at\" bigint NOT NULL DEFAULT 0, lease_until bigint NOT NULL DEFAULT 0, rev bigint NOT NULL,"
    "  PRIMARY KEY(ns,scope,name,token))",
    "CREATE TABLE key_wait("
    "  ns bigint NOT NULL, scope bigint NOT NULL, name bytea NOT NULL, seq bigint NOT NULL,"
    "  job bigint NOT NULL DEFAULT 0, addr bytea, guid bytea, units bigint NOT NULL DEFAULT 0,"
    "  lease_ms bigint NOT NULL DEFAULT 0, msg_topic bytea, \"at\" bigint NOT NULL DEFAULT 0,"
    "  rev bigint NOT NULL, PRIMARY KEY(ns,scope,name,seq))",
    "CREATE TABLE event("
    "  ns bigint NOT NULL, job bigint NOT NULL, seq bigint NOT NULL, kind bigint NOT NULL DEFAULT 0,"
    "  addr bytea, detail bytea, \"at\" bigint NOT NULL DEFAULT 0, pos bigint NOT NULL DEFAULT 0,"
    "  rev bigint NOT NULL, PRIMARY KEY(ns,job,seq))",
    "CREATE TABLE feed("
    "  ns bigint NOT NULL, pos bigint NOT NULL, first bigint NOT NULL DEFAULT 0,"
    "  \"at\" bigint NOT NULL DEFAULT 0, entries bytea, rev bigint NOT NULL, PRIMARY KEY(ns,pos))",
    "CREATE TABLE data("
    "  ns bigint NOT NULL, job bigint NOT NULL, name bytea NOT NULL, \"value\" bytea,"
    "  updated_at bigint NOT NULL DEFAULT 0, rev bigint NOT NULL, PRIMARY KEY(ns,job,name))",
    "CREATE TABLE audit("
    "  ns bigint NOT NULL, id bigint NOT NULL, \"at\" bigint NOT NULL DEFAULT 0, actor bytea, action bytea,"
    "  target bytea, outcome bytea, detail bytea, rev bigint NOT NULL, PRIMARY KEY(ns,id))",
    "CREATE TABLE idem("
    "  ns bigint NOT NULL, ikey bytea NOT NULL, body_hash bytea, status bigint NOT NULL DEFAULT 0,"
    "  answer bytea, \"at\" bigint NOT NULL DEFAULT 0, expire_at bigint NOT NULL DEFAULT 0,"
    "  rev bigint NOT NULL, PRIMARY KEY(ns,ikey))",
    "CREATE TABLE access("
    "  ns bigint NOT NULL, id bytea NOT NULL, hash bytea, name bytea, role bytea, scopes bytea, spaces bytea,"
    "  topics bytea, created_at bigint NOT NULL DEFAULT 0, expire_at bigint NOT NULL DEFAULT 0,"
    "  revoked_at bigint NOT NULL DEFAULT 0, used_at bigint NOT NULL DEFAULT 0, rev bigint NOT NULL,"
    "  PRIMARY KEY(ns,id)) WITH (fillfactor=70)",
    "CREATE UNIQUE INDEX space_name ON space(name)",
    "CREATE INDEX job_status ON job(ns,status,job) WHERE status NOT IN (0,5)",
    "CREATE INDEX job_expire ON job(expire_at,ns,job) WHERE expire_at>0",
    "CREATE INDEX job_parent ON job(ns,parent_job,job) WHERE parent_guid IS NOT NULL",
    "CREATE INDEX attr_value ON attr(ns,name,\"value\",job)",
    "CREATE INDEX msg_ready ON msg(ns,topic,limit_key,priority,ord) WHERE state=1",
    "CREATE INDEX msg_wake ON msg(wake_at,ns,job,guid) WHERE wake_at>0",
    "CREATE INDEX hook_wait_job ON hook_wait(ns,job,topic,hkey,seq)",
    "CREATE INDEX hook_sig_expire ON hook_sig(expire_at,ns,topic,hkey,seq)",
    "CREATE INDEX key_hold_lease ON key_hold(lease_until,ns,scope,name,token) WHERE lease_until>0",
    "CREATE INDEX key_hold_job ON key_hold(ns,job,guid,scope,name,token)",
    "CREATE INDEX key_wait_job ON key_wait(ns,job,guid,scope,name,seq)",
    "CREATE INDEX idem_expire ON idem(expire_at,ns,ikey)",
    "CREATE SEQUENCE orders INCREMENT 4096 START 1",
    "CREATE SEQUENCE ids INCREMENT 131072 START 2",
    "CREATE FUNCTION expect(got bigint, wanted bigint) RETURNS bigint LANGUAGE plpgsql AS $$"
    "BEGIN"
    "  IF got <> wanted THEN"
    "    RAISE EXCEPTION 'a row has changed since it was read' USING ERRCODE = 'QP001';"
    "  END IF;"
    "  RETURN got;"
    "END $$",
    "INSERT INTO head(ns,next_id,clean,rev) VALUES(0,2,1,1)",
    "INSERT INTO space(ns,name,rev) VALUES(1,'default',1)",
    "CREATE TABLE meta(version bigint NOT NULL, cluster bigint NOT NULL)",
    "INSERT INTO meta SELECT 0, system_identifier FROM pg_control_system()",
    NULL,
};

/* 3: versions of applications, and the topics that lead to them; 2, 4 and 6 are in functions.c. */
static const char *const migration_3[] = {
    "CREATE TABLE app("
    "  ns bigint NOT NULL, app bytea NOT NULL, version bytea NOT NULL, source bytea, hash bytea,"
    "  created_at bigint NOT NULL DEFAULT 0, activated_at bigint NOT NULL DEFAULT 0,"
    "  state bigint NOT NULL DEFAULT 0, rev bigint NOT NULL, PRIMARY KEY(ns,app,version))",
    "CREATE TABLE app_topic("
    "  ns bigint NOT NULL, kind bigint NOT NULL, topic bytea NOT NULL, version bytea, app bytea,"
    "  rev bigint NOT NULL, PRIMARY KEY(ns,kind,topic))",
    "CREATE INDEX app_active ON app(ns,app,version) WHERE state=1",
    "CREATE INDEX app_topic_app ON app_topic(ns,app,kind,topic)",
    NULL,
};

/* 5: who waits at an activity, and what is on its way to it, without a look at all that its job has. */
static const char *const migration_5[] = {
    "DROP INDEX hook_wait_job",
    "CREATE INDEX hook_wait_job ON hook_wait(ns,job,addr,topic,hkey,seq)",
    "CREATE INDEX msg_pending ON msg(ns,job,addr,guid) WHERE kind=0 AND code=202",
    NULL,
};

/* 7: the number of definitions, which every transaction reads when it begins. */
static const char *const migration_7[] = {
    "CREATE TABLE definition("
    "  ns bigint NOT NULL, n bigint NOT NULL DEFAULT 0, rev bigint NOT NULL, PRIMARY KEY(ns))"
    " WITH (fillfactor=50)",
    NULL,
};

/* 8: what open jobs wait for is counted, from what stands there (store/rows.h, job_word): an activity waits when its
 * hook, timer, child or gate is there, and is tried again when an attempt of it has failed. Lists are in the order of
 * starts. Nodes say which workers they have. */
static const char *const migration_8[] = {
    "ALTER TABLE job ADD COLUMN waits bigint NOT NULL DEFAULT 0",
    "ALTER TABLE job ADD COLUMN retries bigint NOT NULL DEFAULT 0",
    "ALTER TABLE act ADD COLUMN waits bigint NOT NULL DEFAULT 0",
    "ALTER TABLE attr ADD COLUMN started bigint NOT NULL DEFAULT 0",
    "ALTER TABLE node ADD COLUMN serving bytea",
    "UPDATE attr SET started=j.created_at, rev=attr.rev+1 FROM job j WHERE j.ns=attr.ns AND j.job=attr.job",
    "UPDATE act SET waits=2, rev=rev+1 WHERE category=65 AND escalated=0 AND attempt>0 AND"
    " ledger/100000000000%10=1 AND ledger/100000000000000=0 AND (ns,job) IN (SELECT ns,job FROM job WHERE"
    " state=0)",
    "UPDATE act SET waits=1, rev=rev+1 WHERE category=65 AND escalated=0 AND waits=0 AND"
    " ledger/100000000000%10=1 AND ledger/100000000000000=0 AND (ns,job) IN (SELECT ns,job FROM job WHERE"
    " state=0) AND (EXISTS(SELECT 1 FROM hook_wait w WHERE w.ns=act.ns AND w.job=act.job AND w.addr=act.addr)"
    " OR EXISTS(SELECT 1 FROM msg m WHERE m.ns=act.ns AND m.job=act.job AND m.addr=act.addr AND m.kind=0 AND"
    " m.state=2) OR EXISTS(SELECT 1 FROM sem s WHERE s.ns=act.ns AND s.job=act.job AND s.owner_addr=act.addr"
    " AND s.closed_by IS NULL) OR EXISTS(SELECT 1 FROM job c WHERE c.ns=act.ns AND c.parent_job=act.job AND"
    " c.parent_addr=act.addr AND c.parent_guid IS NOT NULL AND c.state=0))",
    "UPDATE job SET rev=rev+1, waits=(SELECT count(*) FROM act a WHERE a.ns=job.ns AND a.job=job.job AND"
    " a.waits=1), retries=(SELECT count(*) FROM act a WHERE a.ns=job.ns AND a.job=job.job AND a.waits=2) WHERE"
    " state=0 AND opened<>0",
    "UPDATE job SET rev=rev+1, waits=1 WHERE state=0 AND opened=0 AND (status=2 OR EXISTS(SELECT 1 FROM msg m"
    " WHERE m.ns=job.ns AND m.job=job.job AND m.guid=job.owner_guid AND m.kind=7 AND m.state=2))",
    "UPDATE job SET status=CASE WHEN paused<>0 THEN 4 WHEN parked IS NOT NULL THEN 3 WHEN retries>0 THEN 1"
    " WHEN waits>0 AND waits=(CASE WHEN opened<>0 THEN sem ELSE 1 END) THEN 2 ELSE 0 END WHERE state=0",
    "DELETE FROM counter",
    "INSERT INTO counter(ns,workflow,status,shard,n,rev) SELECT ns,workflow,status,0,count(*),1 FROM job GROUP"
    " BY ns,workflow,status",
    "DROP INDEX job_status",
    "CREATE INDEX job_status ON job(ns,status,created_at,job) WHERE status NOT IN (0,5)",
    "CREATE INDEX job_started ON job(ns,created_at,job)",
    "DROP INDEX attr_value",
    "CREATE INDEX attr_value ON attr(ns,name,\"value\",started,job)",
    NULL,
};

/* 9: what flows need. An event has a version, a flow knows what its decisions have seen, signals are kept for a job, and
 * tasks have time limits. */
static const char *const migration_9[] = {
    "ALTER TABLE act ADD COLUMN version bigint NOT NULL DEFAULT 0",
    "ALTER TABLE act ADD COLUMN base bigint NOT NULL DEFAULT 0",
    "ALTER TABLE act ADD COLUMN \"after\" bigint NOT NULL DEFAULT 0",
    "ALTER TABLE job ADD COLUMN kept bigint NOT NULL DEFAULT 0",
    "ALTER TABLE job ADD COLUMN kept_size bigint NOT NULL DEFAULT 0",
    "ALTER TABLE job ADD COLUMN kept_seq bigint NOT NULL DEFAULT 0",
    "ALTER TABLE msg ADD COLUMN limits bytea",
    "ALTER TABLE msg ADD COLUMN deadline bigint NOT NULL DEFAULT 0",
    "ALTER TABLE hook_sig ADD COLUMN job bigint NOT NULL DEFAULT 0",
    "DROP INDEX hook_sig_expire",
    "CREATE INDEX hook_sig_expire ON hook_sig(expire_at,ns,topic,hkey,seq) WHERE expire_at>0",
    "CREATE INDEX hook_sig_job ON hook_sig(ns,job,topic,hkey,seq) WHERE expire_at=0",
    NULL,
};

/* 10: facts, in universes. */
static const char *const migration_10[] = {
    "CREATE TABLE universe("
    "  ns bigint NOT NULL, universe bigint NOT NULL, type bytea, name bytea,"
    "  created_at bigint NOT NULL DEFAULT 0, current_at bigint NOT NULL DEFAULT 0,"
    "  facts bigint NOT NULL DEFAULT 0, state bigint NOT NULL DEFAULT 0, rev bigint NOT NULL,"
    "  PRIMARY KEY(ns,universe))",
    "CREATE TABLE fact("
    "  ns bigint NOT NULL, universe bigint NOT NULL, kind bigint NOT NULL, name bytea NOT NULL, \"value\" bytea,"
    "  expire_at bigint NOT NULL DEFAULT 0, rev bigint NOT NULL, PRIMARY KEY(ns,universe,kind,name))",
    "CREATE UNIQUE INDEX universe_name ON universe(ns,type,name)",
    "CREATE INDEX universe_current ON universe(ns,type,universe) WHERE state=1",
    NULL,
};

/* 11: what becomes of a called job when the one that called it ends, and how many do not outlive a job. */
static const char *const migration_11[] = {
    "ALTER TABLE job ADD COLUMN close bigint NOT NULL DEFAULT 0",
    "ALTER TABLE job ADD COLUMN calls bigint NOT NULL DEFAULT 0",
    NULL,
};

const char *const *const postgres_migrations[] = {
    migration_1, postgres_functions,  migration_3, postgres_start_graphs,
    migration_5, postgres_signal_ids, migration_7, migration_8,
    migration_9, migration_10,        migration_11};
/* clang-format on */

const int64_t postgres_schema_version = (int64_t)ARRAY_COUNT(postgres_migrations);

void postgres_migration_text(struct buf *out, const char *schema, int64_t from)
{
    buf_printf(out, "CREATE SCHEMA IF NOT EXISTS %s;\nSET LOCAL search_path TO %s, pg_temp;\n",
               schema, schema);
    for (int64_t i = from; i < postgres_schema_version; i++) {
        for (const char *const *sql = postgres_migrations[i]; *sql != NULL; sql++) {
            buf_printf(out, "%s;\n", *sql);
        }
    }
    buf_printf(out, "UPDATE meta SET version = %lld;\n", (long long)postgres_schema_version);
}

int postgres_dump_sql(const char *schema, struct buf *out)
{
    buf_text(out, "BEGIN;\n");
    postgres_migration_text(out, schema, 0);
    buf_text(out, "COMMIT;\n");
    return buf_rc(out);
}
