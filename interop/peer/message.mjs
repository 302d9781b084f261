// The nine messages. What this keeps true: keys come in the order in which base peers write them, optional keys are left
// out, and a missing payload is an empty map (but absent in an ack and in control signals).
import { randomUUID } from 'node:crypto'

export const VERSION = { major: 2, minor: 1 }

const head = (type, from, to) => ({ v: VERSION, type, id: randomUUID(), from, to, t: Date.now() })
const given = (payload) => (payload === undefined ? {} : payload)

export const register = (from, to, payload) => ({ ...head('register', from, to), meta: {}, payload })

export const unregister = (from, to) => ({ ...head('unregister', from, to), meta: {}, payload: {} })

export const subscribe = (from, to, targetSubName) => ({
  ...head('subscribe', from, to),
  meta: {},
  payload: { targetSubName },
})

export const unsubscribe = (from, to, targetSubId) => ({
  ...head('unsubscribe', from, to),
  meta: {},
  payload: { targetSubId },
})

export const request = (from, to, kind, target, payload) => ({
  ...head('request', from, to),
  payload: given(payload),
  meta: { kind, target },
})

/** `verdict` is {isOk, whyNotOk?, kind?}. */
export const response = (from, to, parentId, verdict, payload) => ({
  ...head('response', from, to),
  payload: given(payload),
  meta: { parentId, ...verdict },
})

export const notify = (from, to, parentId, targetSubName, hitSubName, payload) => ({
  ...head('notify', from, to),
  payload: given(payload),
  meta: { parentId, targetSubName, hitSubName },
})

export const signal = (from, to, parentId, kind, payload) => ({
  ...head('signal', from, to),
  ...(kind === 'normal' ? { payload: given(payload) } : {}),
  meta: { parentId, kind },
})

export const ack = (from, to, parentId) => ({ ...head('ack', from, to), meta: { parentId } })

/** Reliable messages wait for an ACK; notify and ack are done when the transport took them. */
export const isReliable = ({ type }) => type !== 'notify' && type !== 'ack'
