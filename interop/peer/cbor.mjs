// CBOR as base peers write and read it: cbor-x with records off, plain objects as maps, everything else as it comes. What
// this keeps true: the bytes have the layout of the captured ones (`b9` maps, float64 beyond 32 bits, tag 64 for a
// Uint8Array but none for a Buffer), so that a test with this peer is a test with a base peer.
import { Encoder } from 'cbor-x'

const codec = new Encoder({ useRecords: false, mapsAsObjects: true })

// cbor-x encodes into a buffer that it goes on using; a message that waits in a queue needs bytes of its own.
export const encode = (value) => Buffer.from(codec.encode(value))

export const decode = (bytes) => codec.decode(bytes)
