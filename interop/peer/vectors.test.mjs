// The captured bytes of base programs against this peer. What this keeps true: the peer reads every frame that was
// captured, and what it writes has the same bytes.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import test from 'node:test'
import { decode, encode } from './cbor.mjs'
import { frames, FrameCutter, Reassembler } from './frame.mjs'
import * as message from './message.mjs'

const file = new URL('../../crates/nacp/tests/data/nasdk-1.0.4-tcp.jsonl', import.meta.url)
const vectors = readFileSync(file, 'utf8').trim().split('\n').map((line) => JSON.parse(line))

/** Frames of both directions of all connections, each put together where it belongs. */
function capturedMessages() {
  const directions = new Map()
  return vectors.flatMap((vector) => {
    const key = `${vector.from} ${vector.to}`
    if (!directions.has(key)) directions.set(key, { cutter: new FrameCutter(), reassembler: new Reassembler() })
    const { cutter, reassembler } = directions.get(key)
    const whole = [...cutter.push(Buffer.from(vector.frame, 'hex'))].map((frame) => reassembler.push(frame))
    return whole.filter(Boolean).map((bytes) => ({ vector, bytes }))
  })
}

const isBinary = (value) => ArrayBuffer.isView(value) && !(value instanceof DataView)

function cutBytes(bytes) {
  const raw = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return { $bytes: raw.toString('hex', 0, 100), $len: raw.length }
}

/** A decoded value in the notation of the file. */
function noted(value) {
  if (value === undefined) return { $undefined: true }
  if (typeof value === 'bigint') return { $bigint: String(value) }
  if (typeof value === 'number' && !Number.isFinite(value)) return { $number: String(value) }
  if (value instanceof Date) return { $date_ms: value.getTime() }
  if (Buffer.isBuffer(value)) return cutBytes(value)
  if (isBinary(value)) return { $typed: value.constructor.name, ...cutBytes(value) }
  if (value instanceof Map) return { $map: [...value].map((entry) => entry.map(noted)) }
  if (value instanceof Set) return { $set: [...value].map(noted) }
  if (Array.isArray(value)) return value.map(noted)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, noted(inner)]))
}

test('every captured message is read as the file says', () => {
  const whole = capturedMessages()
  assert.equal(whole.length, vectors.filter(({ message: read }) => read).length)
  for (const { vector, bytes } of whole) assert.deepEqual(noted(decode(bytes)), vector.message)
})

test('what was read is written again with the same bytes', () => {
  for (const { bytes } of capturedMessages()) assert.equal(encode(decode(bytes)).toString('hex'), bytes.toString('hex'))
})

test('frames are cut where base programs cut them', () => {
  for (const chunked of capturedMessages().filter(({ vector }) => vector.scenario === 'chunked' && vector.from === 'hello')) {
    const packetId = Buffer.from(chunked.vector.frame.slice(0, 32), 'hex')
    const captured = vectors.filter(({ frame }) => frame.startsWith(packetId.toString('hex')))
    const cut = [...frames(chunked.bytes, 100, packetId)].map((frame) => frame.toString('hex'))
    assert.deepEqual(cut, captured.map(({ frame }) => frame))
  }
})

test('messages are built with the keys and the order of the captured ones', () => {
  const keys = (msg) => [Object.keys(msg), Object.keys(msg.meta)]
  const built = {
    register: message.register('a', 'b', {}),
    unregister: message.unregister('a', 'b'),
    subscribe: message.subscribe('a', 'b', 'x'),
    unsubscribe: message.unsubscribe('a', 'b', 'x'),
    request: message.request('a', 'b', 'event', 'x'),
    notify: message.notify('a', 'b', 'i', 'x', 'x'),
    ack: message.ack('a', 'b', 'i'),
  }
  for (const { bytes } of capturedMessages()) {
    const msg = decode(bytes)
    if (built[msg.type]) assert.deepEqual(keys(built[msg.type]), keys(msg), msg.type)
  }
})
