// NACT 1 frames. What this keeps true: every violation that a receiver can see in a header is found in the order that the
// protocol gives, and named by its reason; nothing is delivered from a frame that was refused.
import { randomBytes } from 'node:crypto'

export const HEADER = 32
const MAGIC = 0xcf
const VERSION = 1
const FRAME_MAX = 2 ** 31

export class FrameError extends Error {
  constructor(reason) {
    super(reason)
    this.reason = reason
  }
}

/** The frames of one message, none longer than `chunkSize` (header included). */
export function* frames(message, chunkSize, packetId = randomBytes(16)) {
  const share = chunkSize - HEADER
  if (share < 1) throw new RangeError(`chunk size ${chunkSize} leaves no room for a body`)
  let offset = 0
  do {
    const body = message.subarray(offset, offset + share)
    const header = Buffer.alloc(HEADER)
    packetId.copy(header)
    header.writeUInt32BE(offset, 16)
    header.writeUInt32BE(message.length, 20)
    header.writeUInt32BE(HEADER + body.length, 24)
    header[30] = MAGIC
    header[31] = VERSION
    yield Buffer.concat([header, body])
    offset += body.length
  } while (offset < message.length)
}

/** Checks a header and gives its fields; the checks come in the order of the protocol. */
export function readHeader(bytes) {
  if (bytes[31] !== VERSION) throw new FrameError('version-mismatch')
  if (bytes[30] !== MAGIC) throw new FrameError('bad-magic')
  const size = bytes.readUInt32BE(24)
  if (size < HEADER) throw new FrameError('frame-too-small')
  if (size > FRAME_MAX) throw new FrameError('frame-too-large')
  return {
    packetId: bytes.toString('hex', 0, 16),
    offset: bytes.readUInt32BE(16),
    total: bytes.readUInt32BE(20),
    size,
  }
}

/** Cuts a byte stream into frames, however the bytes arrive. */
export class FrameCutter {
  #parts = []
  #length = 0
  #wanted = HEADER;

  *push(bytes) {
    this.#parts.push(bytes)
    this.#length += bytes.length
    while (this.#length >= this.#wanted) {
      // Joined only when there is enough: a large frame that comes in small pieces is copied once.
      const all = this.#parts.length === 1 ? this.#parts[0] : Buffer.concat(this.#parts)
      this.#parts = [all]
      const { size } = readHeader(all)
      this.#wanted = size
      if (all.length < size) return
      yield all.subarray(0, size)
      this.#parts = [all.subarray(size)]
      this.#length -= size
      this.#wanted = HEADER
    }
  }
}

/** Puts messages together; frames of several messages may alternate. */
export class Reassembler {
  #open = new Map()

  /** @returns the whole message when this frame was its last one, else undefined */
  push(frame) {
    if (frame.length < HEADER) throw new FrameError('frame-too-small')
    const { packetId, offset, total, size } = readHeader(frame)
    if (size !== frame.length) throw new FrameError('frame-size-mismatch')
    const body = frame.subarray(HEADER)
    const end = offset + body.length
    if (end > total) throw new FrameError('frame-out-of-bounds')
    const open = this.#open.get(packetId) ?? { shares: [], received: 0, reach: 0, total }
    if (open.total !== total) throw new FrameError('frame-out-of-bounds')
    const overlaps = (share) => share.offset < end && offset < share.offset + share.body.length
    // Shares mostly come in order; only one below the highest end so far can overlap at all.
    if (offset < open.reach && open.shares.some(overlaps)) throw new FrameError('overlapping-frame')
    open.reach = Math.max(open.reach, end)
    open.shares.push({ offset, body })
    open.received += body.length
    if (open.received < total) {
      this.#open.set(packetId, open)
      return undefined
    }
    this.#open.delete(packetId)
    open.shares.sort((a, b) => a.offset - b.offset)
    return open.shares.length === 1 ? open.shares[0].body : Buffer.concat(open.shares.map((share) => share.body))
  }
}
