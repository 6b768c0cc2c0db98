// functions.js - does the calls that functioncalls printed in JavaScript, and compares
//
// usage: functioncalls SEED COUNT | TZ=UTC node functions.js
//
// Every line is a call with its result (test/tools/functioncalls.c). Here is what each function means in terms of
// ECMAScript; where docs/mapping.md rules otherwise, that ruling is written out here, and is what is compared with.
'use strict';

const NOW = 1769850487123;
const RealDate = Date;

// Half of a character that was cut apart becomes U+FFFD.
const wellFormed = (s) =>
    s.replace(/[\uD800-\uDBFF][\uDC00-\uDFFF]|[\uD800-\uDFFF]/g, (m) => (m.length === 2 ? m : '\uFFFD'));

function decode(v) {
    if (v === null || typeof v !== 'object') return v;
    if (Array.isArray(v)) return v.map(decode);
    if ('$' in v) {
        switch (v.$) {
        case 'undefined': return undefined;
        case 'date': return new RealDate(decode(v.t));
        case '-0': return -0;
        default: return Number(v.$);
        }
    }
    return Object.fromEntries(Object.entries(v).map(([k, x]) => [k, decode(x)]));
}

function encode(v) {
    if (v === undefined) return { $: 'undefined' };
    if (typeof v === 'number') {
        if (Number.isNaN(v)) return { $: 'NaN' };
        if (!Number.isFinite(v)) return { $: String(v) };
        return Object.is(v, -0) ? { $: '-0' } : v;
    }
    if (typeof v === 'string') return wellFormed(v);
    if (v instanceof RealDate) return { $: 'date', t: encode(v.getTime()) };
    if (Array.isArray(v)) return Array.from(v, encode);
    if (v !== null && typeof v === 'object') {
        return Object.fromEntries(Object.entries(v).map(([k, x]) => [wellFormed(k), encode(x)]));
    }
    return v;
}

// ------------------------------------------------------------------------------------------ what the functions mean

const thing = (v) => v !== null && typeof v === 'object';
const same = (a, b) => JSON.stringify(sorted(encode(a))) === JSON.stringify(sorted(encode(b)));
function sorted(v) {
    if (Array.isArray(v)) return v.map(sorted);
    if (!thing(v)) return v;
    return Object.fromEntries(Object.keys(v).sort().map((k) => [k, sorted(v[k])]));
}
// Ruling: arrays, objects and dates are equal when their contents are.
const nan = (v) => JSON.stringify(encode(v)).includes('"NaN"') && !(v instanceof RealDate);
const strict = (a, b) => (thing(a) && thing(b) ? !nan(a) && same(zero(a), zero(b)) : a === b);
const zero = (v) => (Array.isArray(v) ? v.map(zero) : v instanceof RealDate || !thing(v) ? (v === 0 ? 0 : v)
    : Object.fromEntries(Object.entries(v).map(([k, x]) => [k, zero(x)])));
const loose = (a, b) => (thing(a) && thing(b) ? strict(a, b) : a == b);

const array = (f) => (a, ...rest) => (Array.isArray(a) ? f([...a], ...rest) : undefined);
const string = (name) => (...a) => String.prototype[name].apply(a[0], a.slice(1));
// Ruling: an array among the operands of math counts as its items.
const spread = (f) => (...a) => f(...a.flat());
const fold = (start, f) => spread((...a) =>
    (start === undefined ? (a.length ? a.map(Number).reduce(f) : NaN) : a.map(Number).reduce(f, start)));

// Ruling: of texts that are not ISO 8601, those are dates that name a month, or are written as 1/31/2026.
const months = 'Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec';
const known = new RegExp(
    `^([+-]\\d{6}|\\d{4})(-\\d\\d(-\\d\\d)?)?(T|$)|^(\\w{3},? )?(\\d+ )?(${months})|^\\d+/\\d+/\\d{4}`);
const parse = (text) => (known.test(text) ? RealDate.parse(text) : NaN);

// Ruling: integers stay exact up to 64 bits.
const lift = (x) => (Number.isInteger(x) && Math.abs(x) <= 2 ** 53 && !Object.is(x, -0) ? BigInt(x) : x);
const exactly = (big, plain) => (a, b) => {
    const [x, y] = [lift(a), lift(b)];
    const whole = typeof x === 'bigint' && typeof y === 'bigint' ? big(x, y) : undefined;
    return whole !== undefined && whole === BigInt.asIntN(64, whole) ? whole : lift(plain(Number(a), Number(b)));
};
const total = (start, f) => (...a) => Number(fold(start, f)(...a));

function time(a) {
    if (a.length === 0) return new RealDate(NOW);
    const v = a[0];
    if (v instanceof RealDate) return v;
    if (typeof v === 'number') return new RealDate(v);
    if (typeof v !== 'string') return new RealDate(NaN);
    const t = parse(v);
    return new RealDate(Number.isNaN(t) && /^[0-9]+$/.test(v) ? Number(v) : t);
}
const date = (name) => (...a) => {
    const t = time(a);
    return new RealDate(t.getTime())[name](...a.slice(1));
};
const iso = (a) => time(a).toISOString();
const only = (name) => (...a) => time(a)[name]();
const locale = (name) => (...a) => time(a)[name]('en-US', { timeZone: 'UTC' }).replace(/\u202f/g, ' ');

const keyed = (v) => v !== null && v !== undefined;
const own = (o, k) => (keyed(o) ? Object.prototype.hasOwnProperty.call(o, String(k)) : undefined);
const plain = (v) => thing(v) && !Array.isArray(v) && !(v instanceof RealDate);

const meaning = {
    array: {
        get: (a, i) => (i = i === undefined ? 0 : Number(i), Array.isArray(a) || typeof a === 'string' ? a[i] : undefined),
        length: (a) => (Array.isArray(a) || typeof a === 'string' ? a.length : undefined),
        concat: array((a, ...v) => a.concat(...v)),
        indexOf: array((a, x, from) => {
            let i = Math.trunc(Number(from)) || 0;
            for (i = i < 0 ? Math.max(0, a.length + i) : i; i < a.length; i++) if (strict(a[i], x)) return i;
            return -1;
        }),
        lastIndexOf: array((a, ...r) => {
            let i = r.length > 1 ? Math.trunc(Number(r[1])) || 0 : a.length - 1;
            for (i = i < 0 ? a.length + i : Math.min(i, a.length - 1); i >= 0; i--) if (strict(a[i], r[0])) return i;
            return -1;
        }),
        join: array((a, s) => a.join(s === undefined ? ',' : s)),
        pop: array((a) => a.pop()),
        push: array((a, ...v) => (a.push(...v), a)),
        reverse: array((a) => a.reverse()),
        shift: array((a) => a.shift()),
        slice: array((a, ...r) => a.slice(...r)),
        sort: array((a, order) => {
            const rank = (x) => (typeof x === 'number' && !isNaN(x) ? 0 : 1);
            const text = (x, y) => (String(x) < String(y) ? -1 : String(x) > String(y) ? 1 : 0);
            const up = (x, y) => rank(x) - rank(y) || (rank(x) === 0 ? (x > y) - (x < y) : text(x, y));
            return a.sort(String(order) === 'DESCENDING' ? (x, y) => up(y, x) : up);
        }),
        splice: array((a, ...r) => a.splice(...r)),
        unshift: array((a, ...v) => a.unshift(...v)),
    },
    bitwise: {
        and: (a, b) => a & b, or: (a, b) => a | b, xor: (a, b) => a ^ b, leftShift: (a, b) => a << b,
        rightShift: (a, b) => a >> b, unsignedRightShift: (a, b) => a >>> b,
    },
    conditional: {
        ternary: (c, a, b) => (c ? a : b),
        equality: loose, inequality: (a, b) => !loose(a, b),
        strict_equality: strict, strict_inequality: (a, b) => !strict(a, b),
        greater_than: (a, b) => a > b, less_than: (a, b) => a < b,
        greater_than_or_equal: (a, b) => a >= b, less_than_or_equal: (a, b) => a <= b,
        nullish: (...a) => a.reduce((x, y) => x ?? y, undefined),
    },
    date: {
        now: () => NOW,
        yyyymmdd: (...a) => iso(a).replace(/T.*/, ''),
        fromISOString: (...a) => time(a),
        parse: (v) => parse(String(v)),
        UTC: (...a) => RealDate.UTC(...a),
        toISOString: (...a) => iso(a),
        toISOXString: (...a) => iso(a).replace(/[-:TZ]/g, ''),
        toJSON: only('toJSON'), toString: only('toString'), toDateString: only('toDateString'),
        toTimeString: only('toTimeString'), toUTCString: only('toUTCString'), valueOf: only('valueOf'),
        toLocaleString: locale('toLocaleString'), toLocaleDateString: locale('toLocaleDateString'),
        toLocaleTimeString: locale('toLocaleTimeString'),
    },
    json: {
        // Ruling: what our border refuses is no JSON; of what is generated that is a number that overflows.
        parse: (v) => (JSON.stringify(encode(JSON.parse(v))).includes('Infinity') ? undefined : JSON.parse(v)),
        // A width of less than one is none, by the standard; V8 writes lines all the same.
        stringify: (v, ignored, space) => JSON.stringify(v, undefined, typeof space === 'number' ? Math.trunc(space) : space),
    },
    logical: { and: (...a) => a.reduce((x, y) => x && y), or: (...a) => a.reduce((x, y) => x || y) },
    math: {
        add: total(0, exactly((a, b) => a + b, (a, b) => a + b)),
        multiply: total(1, exactly((a, b) => (a && b ? a * b : undefined), (a, b) => a * b)),
        subtract: total(undefined, exactly((a, b) => a - b, (a, b) => a - b)),
        divide: total(undefined, exactly((a, b) => (a && b && b !== -1n && a % b === 0n ? a / b : undefined),
            (a, b) => (b === 0 ? NaN : a / b))),
    },
    number: {
        isFinite: Number.isFinite, isInteger: Number.isInteger, isNaN: Number.isNaN,
        isEven: (n) => Number(n) % 2 === 0, isOdd: (n) => Math.abs(Number(n) % 2) === 1,
        parseFloat, parseInt: (s, r) => parseInt(s, r),
        toFixed: (n, d) => Number(n).toFixed(d), toExponential: (n, d) => Number(n).toExponential(d),
        toPrecision: (n, d) => Number(n).toPrecision(d),
        gte: (a, b) => a >= b, lte: (a, b) => a <= b, gt: (a, b) => a > b, lt: (a, b) => a < b,
        max: spread(Math.max), min: spread(Math.min), pow: spread(Math.pow), round: spread(Math.round),
    },
    object: {
        get: (o, k) => (own(o, k) ? o[String(k)] : undefined),
        set: (o, k, v) => (plain(o) ? { ...o, [String(k)]: v } : undefined),
        create: (...a) => {
            const o = {};
            for (let i = 0; i < a.length; i += 2) o[String(a[i])] = a[i + 1];
            return o;
        },
        keys: Object.keys, values: Object.values, entries: Object.entries,
        fromEntries: (e) => (Array.isArray(e) && e.every(Array.isArray) ? Object.fromEntries(e) : undefined),
        assign: (o, ...rest) => (plain(o) ? Object.assign({ ...o }, ...rest) : undefined),
        getOwnPropertyNames: Object.getOwnPropertyNames, getOwnPropertySymbols: (o) => Object.getOwnPropertySymbols(o),
        getOwnPropertyDescriptor: (o, k) =>
            (own(o, k) ? { value: o[String(k)], writable: true, enumerable: true, configurable: true } : undefined),
        defineProperty: (o, k, d) => (plain(o) && thing(d) ? { ...o, [String(k)]: d.value } : undefined),
        is: (a, b) => (thing(a) && thing(b) ? strict(a, b) : Object.is(a, b)),
        freeze: (o) => o, seal: (o) => o, preventExtensions: (o) => o,
        isFrozen: (o) => !thing(o), isSealed: (o) => !thing(o), isExtensible: thing,
        hasOwnProperty: own, isPrototypeOf: () => false,
        propertyIsEnumerable: (o, k) =>
            (keyed(o) ? Object.prototype.propertyIsEnumerable.call(o, String(k)) : undefined),
    },
    string: {
        // Rulings: null and undefined are dropped; search takes a plain string.
        concat: (...a) => ''.concat(...a.filter(keyed)),
        search: (s, w) => String.prototype.indexOf.call(s, w),
        split: (...a) => String.prototype.split.call(String.prototype.slice.call(a[0]),
            thing(a[1]) ? String(a[1]) : a[1] === null ? 'null' : a[1], a[2]),
        replace: (s, w, x) => String.prototype.replace.call(s, String(w), String(x)),
    },
    symbol: {
        null: () => null, undefined: () => undefined, whitespace: () => ' ', object: () => ({}), array: () => [],
        posInfinity: () => Infinity, negInfinity: () => -Infinity, NaN: () => NaN, date: () => new RealDate(NOW),
    },
    unary: { not: (a) => !a, positive: (a) => +a, negative: (a) => -a, bitwise_not: (a) => ~a },
};

for (const name of Object.getOwnPropertyNames(Math)) {
    if (typeof Math[name] === 'function') meaning.math[name] = spread(Math[name]);
}
for (const name of Object.getOwnPropertyNames(RealDate.prototype)) {
    if (/^[gs]et/.test(name)) meaning.date[name] ??= date(name);
}
for (const name of ['charAt', 'includes', 'indexOf', 'lastIndexOf', 'slice', 'toLowerCase', 'toUpperCase', 'trim',
    'trimStart', 'trimEnd', 'padStart', 'padEnd', 'substring', 'startsWith', 'endsWith', 'repeat']) {
    meaning.string[name] = string(name);
}

// ------------------------------------------------------------------------------------------------------- comparing

// Chance; and what is tested by itself, since there is nothing to compare with: test/unit/test_cron.c.
const skipped = new Set(['math.random', 'cron.nextDelay']);
const inexact = new Set(['acos', 'acosh', 'asin', 'asinh', 'atan', 'atan2', 'atanh', 'cbrt', 'cos', 'cosh', 'exp',
    'expm1', 'hypot', 'log', 'log10', 'log1p', 'log2', 'pow', 'sin', 'sinh', 'tan', 'tanh'].map((n) => 'math.' + n));
inexact.add('number.pow').add('number.parseInt'); // the latter beyond 2^53 with a radix other than ten

const bits = (x) => new BigInt64Array(new Float64Array([x]).buffer)[0];
const ordered = (x) => (bits(x) < 0n ? -(bits(x) & 0x7fffffffffffffffn) : bits(x));
const near = (a, b) => typeof a === 'number' && typeof b === 'number' &&
    (ordered(a) - ordered(b)) ** 2n <= 4n;

function expected(call) {
    const [space, name] = call.f.split('.');
    try {
        return encode(meaning[space][name](...call.a.map(decode)));
    } catch (error) {
        if (error instanceof ReferenceError || /not a function/.test(error.message)) throw error;
        return { $: 'undefined' }; // what throws there is undefined here
    }
}

// Rulings that leave nothing to compare: the call is one where we differ on purpose.
function ruled(call) {
    const [space, name] = call.f.split('.');
    const a = call.a.map(decode);
    if (call.e !== undefined) return 'limit'; // a length that no limit of ours allows
    if (call.f === 'date.parse' && Array.isArray(a[0])) return 'text'; // what a list looks like as text is no date
    if (space === 'date' && /Locale/.test(name) && !(time(a).getUTCFullYear() >= 1)) return 'era';
    return undefined;
}

let passed = 0;
let failed = 0;
const seen = {};
for (const line of require('fs').readFileSync(0, 'utf8').split('\n')) {
    if (line === '') continue;
    const call = JSON.parse(line);
    if (skipped.has(call.f) || ruled(call)) continue;
    const want = expected(call);
    const right = JSON.stringify(want) === JSON.stringify(call.r) ||
        (inexact.has(call.f) && near(want, call.r));
    seen[call.f] = true;
    if (right) {
        passed++;
    } else {
        failed++;
        if (failed <= 40) console.log(`${line}\n    JavaScript has ${JSON.stringify(want)}`);
    }
}
console.log(`${Object.keys(seen).length} functions`);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 || passed === 0 ? 1 : 0);
