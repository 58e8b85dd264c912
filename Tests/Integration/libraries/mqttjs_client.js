// MQTT.js, driven by the lines that child.py describes.
'use strict'

const mqtt = require('mqtt')
const readline = require('readline')

const hex = (value) => Buffer.from(value).toString('hex')
const bytes = (value) => Buffer.from(value, 'hex')
const text = (value) => bytes(value).toString()

/** Fields as an object of lists. */
function parse (words) {
  const fields = {}
  for (const word of words) {
    const [name, value] = word.split('=')
    ;(fields[name] ||= []).push(value)
  }
  return fields
}

const number = (values) => values && Number(values[0])
const flag = (values) => number(values) === 1
const given = (object) => Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined))

/** A client; returns what it does at each verb. */
function makeClient (name) {
  let client
  const unacknowledged = []

  function say (verb, fields) {
    const words = fields.filter(([, value]) => value !== undefined && value !== null).map(([name, value]) => `${name}=${value}`)
    process.stdout.write([name, verb, ...words].join(' ') + '\n')
  }

  const failed = (error) => say('failed', [['why', hex(String(error))]])

  function connect (fields) {
    const byHand = flag(fields.by_hand)
    const version = number(fields.version)
    let endingReason = 0
    client = mqtt.connect({
      host: '127.0.0.1',
      port: number(fields.port),
      protocolVersion: version,
      clientId: text(fields.client_id[0]),
      clean: flag(fields.clean),
      keepalive: number(fields.keep_alive),
      reconnectPeriod: 0,
      properties: version === 5
        ? given({ sessionExpiryInterval: number(fields.expiry_seconds), receiveMaximum: number(fields.receive_maximum) })
        : undefined,
      will: fields.will_topic && {
        topic: text(fields.will_topic[0]),
        payload: bytes(fields.will_payload[0]),
        qos: number(fields.will_qos),
        retain: flag(fields.will_retain)
      }
    })
    if (byHand) {
      // An error for an answer makes the library go on to the next packet without acknowledging this one.
      client.handleMessage = (packet, done) => done(packet.qos === 1 ? new Error('acknowledged later') : undefined)
    }
    client.on('connect', (packet) => {
      const properties = packet.properties || {}
      say('connected', [
        ['session_present', Number(packet.sessionPresent)],
        ['reason', packet.reasonCode ?? packet.returnCode],
        ['assigned_client_id', properties.assignedClientIdentifier && hex(properties.assignedClientIdentifier)],
        ['receive_maximum', properties.receiveMaximum],
        ['topic_alias_maximum', properties.topicAliasMaximum],
        ['maximum_packet_size', properties.maximumPacketSize]
      ])
    })
    client.on('message', message)
    client.on('disconnect', (packet) => { endingReason = packet.reasonCode })
    client.on('close', () => say('ended', [['reason', endingReason]]))
    client.on('error', failed)
  }

  function message (topic, payload, packet) {
    const properties = packet.properties || {}
    const optionalHex = (value) => value === undefined ? undefined : hex(value)
    const pairs = Object.entries(properties.userProperties || {}).flatMap(([key, values]) => [values].flat().map((value) => [key, value]))
    unacknowledged.push(packet)
    say('message', [
      ['topic', hex(topic)],
      ['payload', hex(payload)],
      ['qos', packet.qos],
      ['retain', Number(packet.retain)],
      ['handle', unacknowledged.length - 1],
      ['content_type', optionalHex(properties.contentType)],
      ['response_topic', optionalHex(properties.responseTopic)],
      ['correlation_data', optionalHex(properties.correlationData)],
      ['payload_format', properties.payloadFormatIndicator === undefined ? undefined : Number(properties.payloadFormatIndicator)],
      ['expiry_seconds', properties.messageExpiryInterval],
      ['topic_alias', properties.topicAlias],
      ...pairs.flatMap(([key, value]) => [['key', hex(key)], ['value', hex(value)]]),
      ...[properties.subscriptionIdentifier ?? []].flat().map((identifier) => ['subscription_identifier', identifier])
    ])
  }

  function subscribe (fields) {
    // Without `resubscribe` the library leaves out a filter that it has subscribed to before.
    const topics = { resubscribe: true }
    for (const filter of fields.filter) {
      topics[text(filter)] = {
        qos: number(fields.qos),
        nl: flag(fields.no_local),
        rap: flag(fields.retain_as_published),
        rh: number(fields.retain_handling)
      }
    }
    const options = fields.identifier ? { properties: { subscriptionIdentifier: number(fields.identifier) } } : {}
    client.subscribe(topics, options, (error, granted) => {
      if (error) return failed(error)
      say('subscribed', granted.map((one) => ['reason', one.qos]))
    })
  }

  function publish (fields) {
    const userProperties = {}
    for (const [index, key] of (fields.key || []).entries()) {
      (userProperties[text(key)] ||= []).push(text(fields.value[index]))
    }
    const properties = given({
      contentType: fields.content_type && text(fields.content_type[0]),
      responseTopic: fields.response_topic && text(fields.response_topic[0]),
      correlationData: fields.correlation_data && bytes(fields.correlation_data[0]),
      payloadFormatIndicator: fields.payload_format && flag(fields.payload_format),
      messageExpiryInterval: number(fields.expiry_seconds),
      topicAlias: number(fields.topic_alias),
      userProperties: fields.key && userProperties
    })
    const options = { qos: number(fields.qos), retain: flag(fields.retain) }
    if (Object.keys(properties).length > 0) options.properties = properties
    client.publish(text(fields.topic[0]), bytes(fields.payload[0]), options, (error) => {
      if (error) return failed(error)
      say('published', [['ticket', number(fields.ticket)]])
    })
  }

  return {
    connect,
    subscribe,
    publish,
    unsubscribe: (fields) => client.unsubscribe(text(fields.filter[0]), (error) => error ? failed(error) : say('unsubscribed', [])),
    acknowledge: (fields) => {
      client._sendPacket({ cmd: 'puback', messageId: unacknowledged[number(fields.handle)].messageId, reasonCode: 0 })
    },
    disconnect: () => client.end(),
    drop: () => client ? client.stream.destroy() : say('ended', [])
  }
}

const clients = new Map()

readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const [name, verb, ...words] = line.split(' ')
  if (!clients.has(name)) clients.set(name, makeClient(name))
  clients.get(name)[verb](parse(words))
  if (verb === 'drop') clients.delete(name)
}).on('close', () => process.exit(0))
