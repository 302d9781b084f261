// Frames: whatever the cuts, the same message; whatever the violation, its name.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import test from 'node:test'
import { FrameCutter, FrameError, frames, Reassembler } from './frame.mjs'

const frameOf = (offset, total, body) => {
  const [frame] = frames(body, 1 << 20, Buffer.alloc(16, 7))
  frame.writeUInt32BE(offset, 16)
  frame.writeUInt32BE(total, 20)
  return frame
}

test('a message survives any chunk size and any cut of the stream', () => {
  const sent = randomBytes(5_000)
  for (const chunkSize of [33, 100, 1_000, 1 << 20]) {
    const stream = Buffer.concat([...frames(sent, chunkSize)])
    for (const cut of [1, 31, 32, 33, 4_096, stream.length]) {
      const cutter = new FrameCutter()
      const reassembler = new Reassembler()
      const whole = []
      for (let at = 0; at < stream.length; at += cut)
        for (const frame of cutter.push(stream.subarray(at, at + cut))) whole.push(reassembler.push(frame))
      assert.deepEqual(whole.filter(Boolean), [sent])
    }
  }
})

test('frames of two messages may alternate, shares may come in any order', () => {
  const reassembler = new Reassembler()
  const [a, b] = [randomBytes(500), randomBytes(300)]
  const mixed = [...frames(a, 100)].reverse().flatMap((frame, at) => [frame, [...frames(b, 100, Buffer.alloc(16))][at]])
  const whole = mixed.filter(Boolean).map((frame) => reassembler.push(frame)).filter(Boolean)
  assert.deepEqual(new Set(whole.map(String)), new Set([a, b].map(String)))
})

test('a message without bytes is one frame', () => {
  const all = [...frames(Buffer.alloc(0), 100)]
  assert.equal(all.length, 1)
  assert.equal(new Reassembler().push(all[0]).length, 0)
})

test('every violation has its name', () => {
  const broken = (change) => {
    const frame = frameOf(0, 4, Buffer.from('body'))
    change(frame)
    return [frame]
  }
  const cases = {
    'version-mismatch': broken((frame) => frame.fill(9, 30)),
    'bad-magic': broken((frame) => (frame[30] = 0)),
    'frame-too-small': broken((frame) => frame.writeUInt32BE(31, 24)),
    'frame-too-large': broken((frame) => frame.writeUInt32BE(2 ** 31 + 1, 24)),
    'frame-size-mismatch': broken((frame) => frame.writeUInt32BE(33, 24)),
    'frame-out-of-bounds': broken((frame) => frame.writeUInt32BE(1, 16)),
    'overlapping-frame': [frameOf(0, 9, Buffer.from('body')), frameOf(3, 9, Buffer.from('body'))],
  }
  for (const [reason, sequence] of Object.entries(cases)) {
    const reassembler = new Reassembler()
    const push = () => sequence.forEach((frame) => reassembler.push(frame))
    assert.throws(push, (error) => error instanceof FrameError && error.reason === reason, reason)
  }
})
