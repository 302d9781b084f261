// The certificate that both sides listen with, inside of TLS. What this keeps true: it is verified by whoever dials, as in
// production; nothing here switches verification off.
import { readFileSync } from 'node:fs'
import path from 'node:path'

/** For `createServer`. `run` makes the files, and has node trust them (NODE_EXTRA_CA_CERTS). */
export function certificate() {
  const directory = process.env.NACP_INTEROP_TLS
  if (!directory) throw new Error('no certificate: start the tests with ./run, or set NACP_INTEROP_TLS')
  const read = (name) => readFileSync(path.join(directory, name))
  return { cert: read('certificate.pem'), key: read('key.pem') }
}

export const isSecure = (url) => /^(tls|wss|https):/.test(url)
