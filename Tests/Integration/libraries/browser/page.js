// Connects to the broker that the page's address names, sends itself messages, and reports them.
'use strict'

const parameters = new URLSearchParams(location.search)
const sizes = [0, 125, 126, 70000, 300000]
const received = []

async function report (result) {
  await fetch('report', { method: 'POST', body: JSON.stringify(result) })
}

const client = mqtt.connect(parameters.get('broker'), {
  protocolVersion: Number(parameters.get('version')),
  reconnectPeriod: 0
})
let isOver = false

function end (result) {
  if (isOver) return
  isOver = true
  client.end()
  report(result)
}

client.on('connect', () => {
  client.subscribe('page/#', { qos: 2 }, (error) => {
    if (error) return end({ failed: String(error) })
    for (const qos of [0, 1, 2]) {
      for (const size of sizes) client.publish(`page/${qos}/${size}`, 'x'.repeat(size), { qos })
    }
    // QoS 2 comes last: its handshake is the longest.
    client.publish('page/2/end', '', { qos: 2 })
  })
})
client.on('message', (topic, payload, packet) => {
  received.push({ topic, size: payload.length, qos: packet.qos })
  if (topic === 'page/2/end') end({ received })
})
client.on('error', (error) => end({ failed: String(error) }))
client.on('close', () => end({ failed: 'the connection was closed' }))
