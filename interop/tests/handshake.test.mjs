// Who may register. What this keeps true: refusals carry the reasons of the base protocol, in both directions, and a
// refused attempt harms nobody who is there.
import assert from 'node:assert/strict'
import test from 'node:test'
import { freshId } from '../peer/app.mjs'
import { decode, encode } from '../peer/cbor.mjs'
import * as message from '../peer/message.mjs'
import { listen } from '../peer/transport.mjs'
import { isLink, javascriptApp, linked, LINK_NEWS, place } from './places.mjs'
import { RustApp } from './rust_app.mjs'

const foreign = { registration: { v: { major: 1, minor: 0 } } }

test('an App ID that is in use and alive is refused, and its holder stays', async (context) => {
  const { js, rust } = await linked(context)
  const twin = javascriptApp(context, {}, js.appId)
  await assert.rejects(twin.dial(rust.url, rust.id), { message: 'appId-in-use' })
  assert.equal(await js.call(rust.id, 'echo', 1), 1)
  assert.equal(js.bus.all('nacp:inbound:request', { where: ({ msg }) => msg.meta.target === 'NApp.heartbeat' }).length, 1)
})

test('an App ID whose holder is silent goes to the newcomer', async (context) => {
  const { js, rust } = await linked(context)
  js.isDeaf = true
  const heir = javascriptApp(context, {}, js.appId)
  await heir.dial(rust.url, rust.id)
  assert.equal(await heir.call(rust.id, 'echo', 1), 1)
  await js.bus.until('nact:peer:disconnect')
})

test('Rust is refused with appId-in-use by JavaScript', async (context) => {
  const { js, rust } = await linked(context, { dialler: 'rust' })
  const url = await js.listen(place(context, 'tcp'))
  const twin = await RustApp.start(context, { id: rust.id })
  await assert.rejects(twin.connect(js.appId, url), { message: 'appId-in-use' })
  assert.equal(await rust.call(js.appId, 'echo', 1), 1)
})

test('another major version is refused', async (context) => {
  const rust = await RustApp.start(context, { id: freshId('rust'), listen: [place(context, 'tcp')] })
  const js = javascriptApp(context)
  await assert.rejects(js.dial(rust.url, rust.id, foreign), { message: 'version-mismatch' })
  await js.dial(rust.url, rust.id, { registration: { v: { major: 2, minor: 99 } } })
})

test('a Register for somebody else is dropped without a word', async (context) => {
  const { js, rust } = await linked(context)
  const lost = javascriptApp(context)
  const wrong = message.register(lost.appId, 'moon', { isGateway: false, decl: { events: [], abilities: [] } })
  const link = await lost.dial(rust.url, rust.id)
  await link.connection.send(encode(wrong))
  assert.equal(await lost.call(rust.id, 'echo', 1), 1)
  const answers = lost.bus.all('nacp:inbound:*', { where: ({ msg }) => msg.meta.parentId === wrong.id })
  assert.equal(answers.length, 0)
  assert.equal(await js.call(rust.id, 'echo', 1), 1)
})

test('who answers under another name than was dialled is left', async (context) => {
  const rust = await RustApp.start(context, { id: freshId('rust') })
  let left
  const closed = new Promise((resolve) => (left = resolve))
  const listener = await listen(place(context, 'tcp'), {}, (connection) => {
    connection.on('close', left)
    connection.on('message', (bytes) => {
      const msg = decode(bytes)
      if (msg.type !== 'register') return
      const card = { isGateway: false, decl: { events: [], abilities: [] } }
      connection.send(encode(message.response('impostor', msg.from, msg.id, { isOk: true }, card)))
    })
  })
  context.after(() => listener.close())
  await assert.rejects(rust.connect('expected', listener.url), { message: 'expect-mismatch' })
  await closed
})

test('two Gateways do not register with each other', async (context) => {
  const rust = await RustApp.start(context, { id: freshId('gateway'), gateway: true, listen: [place(context, 'tcp')] })
  const js = javascriptApp(context, { isGateway: true })
  await assert.rejects(js.dial(rust.url, rust.id), { message: 'dual-gateway' })
  const url = await js.listen(place(context, 'tcp'))
  await assert.rejects(rust.connect(js.appId, url), { message: 'dual-gateway' })
})

test('a second Gateway is refused', async (context) => {
  const rust = await RustApp.start(context, { id: freshId('rust'), listen: [place(context, 'tcp')] })
  await rust.listen(LINK_NEWS)
  const [first, second] = [1, 2].map(() => javascriptApp(context, { isGateway: true }))
  await first.dial(rust.url, rust.id)
  await rust.bus.until(LINK_NEWS, { where: ({ appId, isGateway }) => appId === first.appId && isGateway === true })
  await assert.rejects(second.dial(rust.url, rust.id), { message: 'multi-gateway' })
  await first.unregister(rust.id)
  await rust.bus.until(LINK_NEWS, isLink(first.appId, 'dropped'))
  await second.dial(rust.url, rust.id)
})
