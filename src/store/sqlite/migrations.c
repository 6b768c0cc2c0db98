/* migrations.c - the schema of the SQLite file, by number, forward only
 *
 * A migration that was released is never edited: files that it made are out there. The next change
 * is the next number, and the test that compares the file's columns with rows.def says when one is
 * missing. The file's user_version is the number of the last migration that ran; each runs in one
 * transaction together with that number.
 */
#include "store/sqlite/sqlite_internal.h"

/* clang-format off: SQL reads better as it is written */
/* 1: all that the store names from the start. A table whose rows have a number of their own is a tree by that number, where
 * new rows come to the end and a change finds its row at once, with its key as an index; the others are trees by their key. The
 * defaults of the former are for what a statement leaves out because it is none (batch.c). */
static const char *const migration_1[] = {
    "CREATE TABLE qp_space("
    "  ns INTEGER NOT NULL, name TEXT, created_at INTEGER NOT NULL,"
    "  rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns)) STRICT, WITHOUT ROWID",
    "CREATE TABLE qp_head("
    "  ns INTEGER NOT NULL, pos INTEGER NOT NULL, ord INTEGER NOT NULL,"
    "  clock INTEGER NOT NULL, next_id INTEGER NOT NULL, clean INTEGER NOT NULL,"
    "  rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns)) STRICT, WITHOUT ROWID",
    "CREATE TABLE qp_node("
    "  ns INTEGER NOT NULL, epoch INTEGER NOT NULL, name TEXT,"
    "  started_at INTEGER NOT NULL, lease_until INTEGER NOT NULL,"
    "  state INTEGER NOT NULL, intent BLOB, rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns,epoch)) STRICT, WITHOUT ROWID",
    "CREATE TABLE qp_job("
    "  ns INTEGER NOT NULL DEFAULT 0, job INTEGER PRIMARY KEY NOT NULL, jid TEXT, kind INTEGER NOT NULL DEFAULT 0,"
    "  workflow TEXT, version TEXT, custom_id TEXT, parent_job INTEGER NOT NULL DEFAULT 0,"
    "  parent_addr TEXT, parent_guid BLOB, forked_from TEXT, owner_guid BLOB,"
    "  body_hash BLOB, priority INTEGER NOT NULL DEFAULT 0, limit_key TEXT,"
    "  threshold INTEGER NOT NULL DEFAULT 0, created_at INTEGER NOT NULL DEFAULT 0,"
    "  sem INTEGER NOT NULL DEFAULT 0 CHECK(sem>=0), opened INTEGER NOT NULL DEFAULT 0, closed_by BLOB,"
    "  completions INTEGER NOT NULL DEFAULT 0, seq INTEGER NOT NULL DEFAULT 0, paused INTEGER NOT NULL DEFAULT 0,"
    "  cancelled INTEGER NOT NULL DEFAULT 0, parked TEXT, updated_at INTEGER NOT NULL DEFAULT 0,"
    "  closed_at INTEGER NOT NULL DEFAULT 0, error TEXT, fingerprint TEXT, output BLOB,"
    "  state INTEGER NOT NULL DEFAULT 0, status INTEGER NOT NULL DEFAULT 0, expire_at INTEGER NOT NULL DEFAULT 0,"
    "  rev INTEGER NOT NULL,"
    "  UNIQUE(ns,job)) STRICT",
    "CREATE TABLE qp_job_name("
    "  ns INTEGER NOT NULL, jid TEXT NOT NULL, job INTEGER NOT NULL,"
    "  rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns,jid)) STRICT, WITHOUT ROWID",
    "CREATE TABLE qp_job_custom("
    "  ns INTEGER NOT NULL, workflow TEXT NOT NULL, custom_id TEXT NOT NULL,"
    "  job INTEGER NOT NULL, rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns,workflow,custom_id)) STRICT, WITHOUT ROWID",
    "CREATE TABLE qp_attr("
    "  ns INTEGER NOT NULL, job INTEGER NOT NULL, name TEXT NOT NULL, \"value\" TEXT,"
    "  rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns,job,name)) STRICT, WITHOUT ROWID",
    "CREATE TABLE qp_counter("
    "  ns INTEGER NOT NULL, workflow TEXT NOT NULL, status INTEGER NOT NULL,"
    "  shard INTEGER NOT NULL, \"n\" INTEGER NOT NULL, rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns,workflow,status,shard)) STRICT, WITHOUT ROWID",
    "CREATE TABLE qp_act("
    "  ns INTEGER NOT NULL DEFAULT 0, job INTEGER NOT NULL DEFAULT 0, addr TEXT NOT NULL DEFAULT '',"
    "  kind INTEGER NOT NULL DEFAULT 0, category INTEGER NOT NULL DEFAULT 0, cyclic INTEGER NOT NULL DEFAULT 0,"
    "  parent_guid BLOB, topic TEXT, policy TEXT, input BLOB, \"at\" INTEGER NOT NULL DEFAULT 0,"
    "  seq INTEGER NOT NULL DEFAULT 0, pos INTEGER PRIMARY KEY NOT NULL,"
    "  ledger INTEGER NOT NULL DEFAULT 0 CHECK(ledger BETWEEN 0 AND 999999999999999),"
    "  attempt INTEGER NOT NULL DEFAULT 0, escalated INTEGER NOT NULL DEFAULT 0, error TEXT,"
    "  folded_n INTEGER NOT NULL DEFAULT 0, folded_delta INTEGER NOT NULL DEFAULT 0, guid BLOB,"
    "  guid_ledger INTEGER NOT NULL DEFAULT 0 CHECK(guid_ledger BETWEEN 0 AND 999999999999999),"
    "  n INTEGER NOT NULL DEFAULT 0, delta INTEGER NOT NULL DEFAULT 0, code INTEGER NOT NULL DEFAULT 0, output BLOB,"
    "  guid_at INTEGER NOT NULL DEFAULT 0, guid_seq INTEGER NOT NULL DEFAULT 0, guid_pos INTEGER NOT NULL DEFAULT 0,"
    "  guid_rows INTEGER NOT NULL DEFAULT 0, rev INTEGER NOT NULL,"
    "  UNIQUE(ns,job,addr)) STRICT",
    "CREATE TABLE qp_guid("
    "  ns INTEGER NOT NULL, job INTEGER NOT NULL, addr TEXT NOT NULL,"
    "  guid BLOB NOT NULL, \"at\" INTEGER NOT NULL, seq INTEGER NOT NULL,"
    "  pos INTEGER NOT NULL,"
    "  ledger INTEGER NOT NULL CHECK(ledger BETWEEN 0 AND 999999999999999),"
    "  \"n\" INTEGER NOT NULL, delta INTEGER NOT NULL, code INTEGER NOT NULL,"
    "  output BLOB, rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns,job,addr,guid)) STRICT, WITHOUT ROWID",
    "CREATE TABLE qp_sem("
    "  ns INTEGER NOT NULL, job INTEGER NOT NULL, scope INTEGER NOT NULL,"
    "  opening INTEGER NOT NULL, threshold INTEGER NOT NULL, owner_addr TEXT,"
    "  owner_guid BLOB, topic TEXT, \"count\" INTEGER NOT NULL CHECK(\"count\">=0),"
    "  closed_by BLOB, rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns,job,scope)) STRICT, WITHOUT ROWID",
    "CREATE TABLE qp_move("
    "  ns INTEGER NOT NULL, job INTEGER NOT NULL, scope INTEGER NOT NULL,"
    "  guid BLOB NOT NULL, addr TEXT, delta INTEGER NOT NULL, rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns,job,scope,guid)) STRICT, WITHOUT ROWID",
    "CREATE TABLE qp_msg("
    "  ns INTEGER NOT NULL DEFAULT 0, job INTEGER NOT NULL DEFAULT 0, guid BLOB NOT NULL DEFAULT x'',"
    "  owner INTEGER NOT NULL DEFAULT 0, kind INTEGER NOT NULL DEFAULT 0, topic TEXT, addr TEXT,"
    "  parent_guid BLOB, payload BLOB, code INTEGER NOT NULL DEFAULT 0,"
    "  priority INTEGER NOT NULL DEFAULT 0, limit_key TEXT, ord INTEGER PRIMARY KEY NOT NULL,"
    "  \"at\" INTEGER NOT NULL DEFAULT 0, token INTEGER NOT NULL DEFAULT 0, tries INTEGER NOT NULL DEFAULT 0,"
    "  worker TEXT, error TEXT, state INTEGER NOT NULL DEFAULT 0, wake_at INTEGER NOT NULL DEFAULT 0,"
    "  holder INTEGER NOT NULL DEFAULT 0, rev INTEGER NOT NULL,"
    "  UNIQUE(ns,job,guid)) STRICT",
    "CREATE TABLE qp_lane("
    "  ns INTEGER NOT NULL, topic TEXT NOT NULL, limit_key TEXT NOT NULL,"
    "  own INTEGER NOT NULL, ready INTEGER NOT NULL CHECK(ready>=0),"
    "  held INTEGER NOT NULL CHECK(held>=0), \"max\" INTEGER NOT NULL,"
    "  served INTEGER NOT NULL, rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns,topic,limit_key)) STRICT, WITHOUT ROWID",
    "CREATE TABLE qp_hook("
    "  ns INTEGER NOT NULL, topic TEXT NOT NULL, hkey TEXT NOT NULL,"
    "  waiting INTEGER NOT NULL, pending INTEGER NOT NULL,"
    "  pending_size INTEGER NOT NULL, rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns,topic,hkey)) STRICT, WITHOUT ROWID",
    "CREATE TABLE qp_hook_wait("
    "  ns INTEGER NOT NULL, topic TEXT NOT NULL, hkey TEXT NOT NULL,"
    "  seq INTEGER NOT NULL, job INTEGER NOT NULL, addr TEXT, parent_guid BLOB,"
    "  msg_topic TEXT, keep INTEGER NOT NULL, \"at\" INTEGER NOT NULL,"
    "  rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns,topic,hkey,seq)) STRICT, WITHOUT ROWID",
    "CREATE TABLE qp_hook_sig("
    "  ns INTEGER NOT NULL, topic TEXT NOT NULL, hkey TEXT NOT NULL,"
    "  seq INTEGER NOT NULL, guid BLOB, payload BLOB, code INTEGER NOT NULL,"
    "  keep INTEGER NOT NULL, expire_at INTEGER NOT NULL, \"at\" INTEGER NOT NULL,"
    "  rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns,topic,hkey,seq)) STRICT, WITHOUT ROWID",
    "CREATE TABLE qp_key("
    "  ns INTEGER NOT NULL, scope INTEGER NOT NULL, name TEXT NOT NULL,"
    "  capacity INTEGER NOT NULL, held INTEGER NOT NULL CHECK(held>=0),"
    "  waiting INTEGER NOT NULL, rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns,scope,name)) STRICT, WITHOUT ROWID",
    "CREATE TABLE qp_key_hold("
    "  ns INTEGER NOT NULL, scope INTEGER NOT NULL, name TEXT NOT NULL,"
    "  token INTEGER NOT NULL, job INTEGER NOT NULL, addr TEXT, guid BLOB,"
    "  units INTEGER NOT NULL, \"at\" INTEGER NOT NULL, lease_until INTEGER NOT NULL,"
    "  rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns,scope,name,token)) STRICT, WITHOUT ROWID",
    "CREATE TABLE qp_key_wait("
    "  ns INTEGER NOT NULL, scope INTEGER NOT NULL, name TEXT NOT NULL,"
    "  seq INTEGER NOT NULL, job INTEGER NOT NULL, addr TEXT, guid BLOB,"
    "  units INTEGER NOT NULL, lease_ms INTEGER NOT NULL, msg_topic TEXT,"
    "  \"at\" INTEGER NOT NULL, rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns,scope,name,seq)) STRICT, WITHOUT ROWID",
    "CREATE TABLE qp_event("
    "  ns INTEGER NOT NULL, job INTEGER NOT NULL, seq INTEGER NOT NULL,"
    "  kind INTEGER NOT NULL, addr TEXT, detail BLOB, \"at\" INTEGER NOT NULL,"
    "  pos INTEGER NOT NULL, rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns,job,seq)) STRICT, WITHOUT ROWID",
    "CREATE TABLE qp_feed("
    "  ns INTEGER NOT NULL, pos INTEGER NOT NULL, first INTEGER NOT NULL,"
    "  \"at\" INTEGER NOT NULL, entries BLOB, rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns,pos)) STRICT, WITHOUT ROWID",
    "CREATE TABLE qp_data("
    "  ns INTEGER NOT NULL, job INTEGER NOT NULL, name TEXT NOT NULL, \"value\" BLOB,"
    "  updated_at INTEGER NOT NULL, rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns,job,name)) STRICT, WITHOUT ROWID",
    "CREATE TABLE qp_audit("
    "  ns INTEGER NOT NULL, id INTEGER NOT NULL, \"at\" INTEGER NOT NULL, actor TEXT,"
    "  action TEXT, target TEXT, outcome TEXT, detail TEXT, rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns,id)) STRICT, WITHOUT ROWID",
    "CREATE TABLE qp_idem("
    "  ns INTEGER NOT NULL, ikey TEXT NOT NULL, body_hash BLOB,"
    "  status INTEGER NOT NULL, answer BLOB, \"at\" INTEGER NOT NULL,"
    "  expire_at INTEGER NOT NULL, rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns,ikey)) STRICT, WITHOUT ROWID",
    "CREATE TABLE qp_access("
    "  ns INTEGER NOT NULL, id TEXT NOT NULL, hash BLOB, name TEXT, role TEXT, scopes TEXT,"
    "  spaces TEXT, topics TEXT, created_at INTEGER NOT NULL, expire_at INTEGER NOT NULL,"
    "  revoked_at INTEGER NOT NULL, used_at INTEGER NOT NULL, rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns,id)) STRICT, WITHOUT ROWID",
    "CREATE UNIQUE INDEX qp_space_name ON qp_space(name)",
    "CREATE INDEX qp_job_status ON qp_job(ns,status) WHERE status NOT IN (0,5)",
    "CREATE INDEX qp_job_expire ON qp_job(expire_at,ns) WHERE expire_at>0",
    "CREATE INDEX qp_job_parent ON qp_job(ns,parent_job) WHERE parent_guid IS NOT NULL",
    "CREATE INDEX qp_attr_value ON qp_attr(ns,name,\"value\")",
    "CREATE INDEX qp_msg_ready ON qp_msg(ns,topic,limit_key,priority,ord) WHERE state=1",
    "CREATE INDEX qp_msg_wake ON qp_msg(wake_at,ns,job,guid) WHERE wake_at>0",
    "CREATE INDEX qp_lane_open ON qp_lane(topic,served) WHERE ready>0 AND (max=0 OR held<max)",
    "CREATE INDEX qp_lane_open_ns ON qp_lane(ns,topic,served) WHERE ready>0 AND (max=0 OR held<max)",
    "CREATE INDEX qp_hook_wait_job ON qp_hook_wait(ns,job)",
    "CREATE INDEX qp_hook_sig_expire ON qp_hook_sig(expire_at)",
    "CREATE INDEX qp_key_hold_lease ON qp_key_hold(lease_until) WHERE lease_until>0",
    "CREATE INDEX qp_key_hold_job ON qp_key_hold(ns,job,guid)",
    "CREATE INDEX qp_key_wait_job ON qp_key_wait(ns,job,guid)",
    "CREATE INDEX qp_idem_expire ON qp_idem(expire_at)",
    "INSERT INTO qp_head VALUES(0,0,0,0,2,1,1)",
    "INSERT INTO qp_space VALUES(1,'default',0,1)",
    NULL,
};

/* 2: versions of applications, and the topics that lead to them. */
static const char *const migration_2[] = {
    "CREATE TABLE qp_app("
    "  ns INTEGER NOT NULL, app TEXT NOT NULL, version TEXT NOT NULL, source BLOB, hash BLOB,"
    "  created_at INTEGER NOT NULL, activated_at INTEGER NOT NULL, state INTEGER NOT NULL,"
    "  rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns,app,version)) STRICT, WITHOUT ROWID",
    "CREATE TABLE qp_app_topic("
    "  ns INTEGER NOT NULL, kind INTEGER NOT NULL, topic TEXT NOT NULL, version TEXT, app TEXT,"
    "  rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns,kind,topic)) STRICT, WITHOUT ROWID",
    "CREATE INDEX qp_app_active ON qp_app(ns,app) WHERE state=1",
    "CREATE INDEX qp_app_topic_app ON qp_app_topic(ns,app)",
    NULL,
};

/* 3: who waits at an activity, and what is on its way to it, without a look at all that its job has. */
static const char *const migration_3[] = {
    "DROP INDEX qp_hook_wait_job",
    "CREATE INDEX qp_hook_wait_job ON qp_hook_wait(ns,job,addr)",
    "CREATE INDEX qp_msg_pending ON qp_msg(ns,job,addr,guid) WHERE kind=0 AND code=202",
    NULL,
};

/* 4: the number of definitions. */
static const char *const migration_4[] = {
    "CREATE TABLE qp_definition("
    "  ns INTEGER NOT NULL, \"n\" INTEGER NOT NULL, rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns)) STRICT, WITHOUT ROWID",
    NULL,
};

/* 5: what open jobs wait for is counted, from what stands there (store/rows.h, job_word): an activity waits when its
 * hook, timer, child or gate is there, and is tried again when an attempt of it has failed. Lists are in the order of
 * starts. Nodes say which workers they have. */
static const char *const migration_5[] = {
    "ALTER TABLE qp_job ADD COLUMN waits INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE qp_job ADD COLUMN retries INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE qp_act ADD COLUMN waits INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE qp_attr ADD COLUMN started INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE qp_node ADD COLUMN serving BLOB",
    "UPDATE qp_attr SET started=j.created_at, rev=qp_attr.rev+1 FROM qp_job j WHERE j.ns=qp_attr.ns AND"
    " j.job=qp_attr.job",
    "UPDATE qp_act SET waits=2, rev=rev+1 WHERE category=65 AND escalated=0 AND attempt>0 AND"
    " ledger/100000000000%10=1 AND ledger/100000000000000=0 AND (ns,job) IN (SELECT ns,job FROM qp_job WHERE"
    " state=0)",
    "UPDATE qp_act SET waits=1, rev=rev+1 WHERE category=65 AND escalated=0 AND waits=0 AND"
    " ledger/100000000000%10=1 AND ledger/100000000000000=0 AND (ns,job) IN (SELECT ns,job FROM qp_job WHERE"
    " state=0) AND (EXISTS(SELECT 1 FROM qp_hook_wait w WHERE w.ns=qp_act.ns AND w.job=qp_act.job AND"
    " w.addr=qp_act.addr) OR EXISTS(SELECT 1 FROM qp_msg m WHERE m.ns=qp_act.ns AND m.job=qp_act.job AND"
    " m.addr=qp_act.addr AND m.kind=0 AND m.state=2) OR EXISTS(SELECT 1 FROM qp_sem s WHERE s.ns=qp_act.ns AND"
    " s.job=qp_act.job AND s.owner_addr=qp_act.addr AND s.closed_by IS NULL) OR EXISTS(SELECT 1 FROM qp_job c"
    " WHERE c.ns=qp_act.ns AND c.parent_job=qp_act.job AND c.parent_addr=qp_act.addr AND c.parent_guid IS NOT"
    " NULL AND c.state=0))",
    "UPDATE qp_job SET rev=rev+1, waits=(SELECT count(*) FROM qp_act a WHERE a.ns=qp_job.ns AND"
    " a.job=qp_job.job AND a.waits=1), retries=(SELECT count(*) FROM qp_act a WHERE a.ns=qp_job.ns AND"
    " a.job=qp_job.job AND a.waits=2) WHERE state=0 AND opened<>0",
    "UPDATE qp_job SET rev=rev+1, waits=1 WHERE state=0 AND opened=0 AND (status=2 OR EXISTS(SELECT 1 FROM"
    " qp_msg m WHERE m.ns=qp_job.ns AND m.job=qp_job.job AND m.guid=qp_job.owner_guid AND m.kind=7 AND"
    " m.state=2))",
    "UPDATE qp_job SET status=CASE WHEN paused<>0 THEN 4 WHEN parked IS NOT NULL THEN 3 WHEN retries>0 THEN 1"
    " WHEN waits>0 AND waits=(CASE WHEN opened<>0 THEN sem ELSE 1 END) THEN 2 ELSE 0 END WHERE state=0",
    "DELETE FROM qp_counter",
    "INSERT INTO qp_counter(ns,workflow,status,shard,n,rev) SELECT ns,workflow,status,0,count(*),1 FROM qp_job"
    " GROUP BY ns,workflow,status",
    "DROP INDEX qp_job_status",
    "CREATE INDEX qp_job_status ON qp_job(ns,status,created_at) WHERE status NOT IN (0,5)",
    "CREATE INDEX qp_job_started ON qp_job(ns,created_at)",
    "DROP INDEX qp_attr_value",
    "CREATE INDEX qp_attr_value ON qp_attr(ns,name,\"value\",started)",
    NULL,
};

/* 6: what flows need. An event has a version, a flow knows what its decisions have seen, signals are kept for a job, and
 * tasks have time limits. */
static const char *const migration_6[] = {
    "ALTER TABLE qp_act ADD COLUMN version INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE qp_act ADD COLUMN base INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE qp_act ADD COLUMN \"after\" INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE qp_job ADD COLUMN kept INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE qp_job ADD COLUMN kept_size INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE qp_job ADD COLUMN kept_seq INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE qp_msg ADD COLUMN limits TEXT",
    "ALTER TABLE qp_msg ADD COLUMN deadline INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE qp_hook_sig ADD COLUMN job INTEGER NOT NULL DEFAULT 0",
    "DROP INDEX qp_hook_sig_expire",
    "CREATE INDEX qp_hook_sig_expire ON qp_hook_sig(expire_at) WHERE expire_at>0",
    "CREATE INDEX qp_hook_sig_job ON qp_hook_sig(ns,job) WHERE expire_at=0",
    NULL,
};

/* 7: facts, in universes. */
static const char *const migration_7[] = {
    "CREATE TABLE qp_universe("
    "  ns INTEGER NOT NULL, universe INTEGER NOT NULL, type TEXT, name TEXT, created_at INTEGER NOT NULL,"
    "  current_at INTEGER NOT NULL, facts INTEGER NOT NULL, state INTEGER NOT NULL, rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns,universe)) STRICT, WITHOUT ROWID",
    "CREATE TABLE qp_fact("
    "  ns INTEGER NOT NULL, universe INTEGER NOT NULL, kind INTEGER NOT NULL, name TEXT NOT NULL, \"value\" BLOB,"
    "  expire_at INTEGER NOT NULL, rev INTEGER NOT NULL,"
    "  PRIMARY KEY(ns,universe,kind,name)) STRICT, WITHOUT ROWID",
    "CREATE UNIQUE INDEX qp_universe_name ON qp_universe(ns,type,name)",
    "CREATE INDEX qp_universe_current ON qp_universe(ns,type) WHERE state=1",
    NULL,
};

/* 8: job, act and msg lose what SQLite checked in every write: types (STRICT), that what is never none is not, bounds of
 * digits. Rows come from one interpreter, which checks them when they are written (txn_flush.c) and when they are read
 * (ADR 47). The keys stay NOT NULL. Rows do not change, so only the text of the tables does. */
static const char *const migration_8[] = {
    "PRAGMA writable_schema=ON",
    "UPDATE sqlite_schema SET sql=" SQLITE_SLIM("sql") " WHERE name IN (" SQLITE_SLIM_TABLES ")",
    "PRAGMA writable_schema=RESET",
    NULL,
};

/* 9: what becomes of a called job when the one that called it ends, and how many do not outlive a job. */
static const char *const migration_9[] = {
    "ALTER TABLE qp_job ADD COLUMN close INTEGER DEFAULT 0",
    "ALTER TABLE qp_job ADD COLUMN calls INTEGER DEFAULT 0",
    NULL,
};

const char *const *const sqlite_migrations[] = {migration_1, migration_2, migration_3,
                                                migration_4, migration_5, migration_6,
                                                migration_7, migration_8, migration_9};
/* clang-format on */

const int64_t sqlite_schema_version = (int64_t)ARRAY_COUNT(sqlite_migrations);
