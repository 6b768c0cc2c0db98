// formats.js - checks the formats of one result against each other and, with npm's packages, against their schemas
//
// usage: node formats.js DIRECTORY [MODULES]
//
// DIRECTORY has the files json, cyclonedx, spdx and mermaid of one traversal. The bills of materials must list the packages of
// the JSON that are no virtual names, and their edges must be those of the JSON with virtual names taken out. With MODULES, a
// directory that npm has installed into, the CycloneDX document is validated strictly and every package URL is read.
'use strict';
const fs = require('fs');
const assert = require('assert');
const [directory, modules] = process.argv.slice(2);
const read = (name) => fs.readFileSync(`${directory}/${name}`, 'utf8');
const result = JSON.parse(read('json'));
const bom = JSON.parse(read('cyclonedx'));
const spdx = JSON.parse(read('spdx'));

const node = new Map(result.nodes.map((n) => [n.id, n]));
const out = new Map(result.nodes.map((n) => [n.id, []]));
result.edges.forEach((e) => out.get(e.from).push(e.to));

// What a package needs without virtual names, and whether that is all.
function needs(id) {
    const seen = new Set([id]);
    const found = [];
    const todo = [id];
    let complete = !node.get(id).frontier && node.get(id).errors.length === 0;
    while (todo.length > 0) {
        const at = todo.pop();
        complete = complete && !(node.get(at).virtual && out.get(at).length === 0);
        for (const to of out.get(at).filter((x) => !seen.has(x))) {
            seen.add(to);
            (node.get(to).virtual ? todo : found).push(to);
        }
    }
    return { found: found.sort(), complete };
}

const real = result.nodes.filter((n) => !n.virtual).map((n) => n.id).sort();

function checkCycloneDx() {
    const subject = bom.metadata.component ? [bom.metadata.component] : [];
    const listed = [...subject, ...bom.components];
    assert.deepStrictEqual(listed.map((c) => c.purl).sort(), real);
    assert.deepStrictEqual(bom.dependencies.map((d) => d.ref).sort(), real);
    const incomplete = bom.compositions.filter((c) => c.aggregate === 'incomplete').flatMap((c) => c.dependencies);
    for (const d of bom.dependencies) {
        const want = needs(d.ref);
        assert.deepStrictEqual([...d.dependsOn].sort(), want.found, d.ref);
        assert.strictEqual(incomplete.includes(d.ref), !want.complete, `composition of ${d.ref}`);
    }
    assert.strictEqual(bom.metadata.properties.find((p) => p.name === 'quipu:hash').value, result.hash);
}

function checkSpdx() {
    for (const member of ['spdxVersion', 'dataLicense', 'SPDXID', 'name', 'documentNamespace', 'creationInfo']) {
        assert.ok(spdx[member], `SPDX wants ${member}`);
    }
    assert.match(spdx.creationInfo.created, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    const purl = new Map();
    for (const p of spdx.packages) {
        assert.match(p.SPDXID, /^SPDXRef-[a-zA-Z0-9.-]+$/);
        assert.ok(!purl.has(p.SPDXID) && p.downloadLocation && p.name);
        purl.set(p.SPDXID, p.externalRefs.find((r) => r.referenceType === 'purl').referenceLocator);
    }
    assert.deepStrictEqual([...purl.values()].sort(), real);
    const targets = new Map(real.map((id) => [id, []]));
    for (const r of spdx.relationships.filter((x) => x.relationshipType === 'DEPENDS_ON')) {
        targets.get(purl.get(r.spdxElementId)).push(purl.get(r.relatedSpdxElement) || r.relatedSpdxElement);
    }
    for (const [id, to] of targets) {
        const want = needs(id);
        const more = want.complete ? (want.found.length === 0 ? ['NONE'] : []) : ['NOASSERTION'];
        assert.deepStrictEqual(to.sort(), [...want.found, ...more].sort(), id);
    }
    assert.ok(spdx.relationships.some((r) => r.relationshipType === 'DESCRIBES' && r.spdxElementId === spdx.SPDXID));
}

function checkMermaid() {
    const lines = read('mermaid').split('\n');
    assert.strictEqual(lines.filter((l) => /^ {2}n\d+[[({]/.test(l)).length, result.nodes.length);
    assert.strictEqual(lines.filter((l) => /^ {2}n\d+ -->(\|"[^"|]*"\|)? n\d+$/.test(l)).length, result.edges.length);
    assert.strictEqual(lines.some((l) => /^%% \d+ edges: Mermaid draws at most 500/.test(l)), result.edges.length > 500);
}

async function checkWithPackages() {
    const { PackageURL } = require(`${modules}/node_modules/packageurl-js`);
    const { Validation, Spec } = require(`${modules}/node_modules/@cyclonedx/cyclonedx-library`);
    for (const n of result.nodes) {
        const p = PackageURL.fromString(n.id);
        const name = n.type === 'deb' || !p.namespace ? p.name : `${p.namespace}/${p.name}`;
        assert.deepStrictEqual([p.type, name, p.version || null], [n.type, n.name, n.version || null]);
    }
    const wrong = await new Validation.JsonStrictValidator(Spec.Version.v1dot5).validate(read('cyclonedx'));
    assert.strictEqual(wrong, null, JSON.stringify(wrong));
}

checkCycloneDx();
checkSpdx();
checkMermaid();
if (modules) {
    checkWithPackages().catch((e) => {
        console.error(e);
        process.exit(1);
    });
}
