public import MQTTCodec

/// What a trace is of.
public enum TraceSubject: Hashable, Sendable {
    /// The packets of a client, by its Client Identifier, and what it loses.
    case client(EncodedString)
    /// The packets of all clients that come from there.
    case address(AddressRange)
    /// The messages of a topic filter, and what becomes of each. As topics are called inside the broker.
    case topic(TopicFilter)
}

/// A trace to be made.
public struct TraceWish: Hashable, Sendable {
    /// 0 to 7: names it in what is recorded.
    public let number: Int
    public let subject: TraceSubject
    /// How many bytes of a payload are recorded: 0 to 16 KiB.
    public let payloadBytesMax: Int

    public init(number: Int, _ subject: TraceSubject, payloadBytesMax: Int) {
        self.number = min(max(0, number), SharedLimits.tracesMax - 1)
        self.subject = subject
        self.payloadBytesMax = min(max(0, payloadBytesMax), SharedLimits.tracePayloadBytesMax)
    }
}

/// A packet that went to or from a client: as much of it as is recorded. What it says is read by whoever shows it.
public struct TracedPacket: Sendable {
    public let isFromClient: Bool
    /// Nil before it is known.
    public let clientIdentifier: EncodedString?
    public let info: ConnectionInfo
    public let version: ProtocolVersion
    /// Of the fixed header.
    public let firstByte: UInt8
    /// Of all behind the fixed header.
    public let bodyLength: Int
    /// The first bytes of that: a packet of passwords has them too.
    public let body: [UInt8]

    package init(
        isFromClient: Bool, clientIdentifier: EncodedString?, info: ConnectionInfo, version: ProtocolVersion, firstByte: UInt8,
        bodyLength: Int, body: [UInt8]
    ) {
        self.isFromClient = isFromClient
        self.clientIdentifier = clientIdentifier
        self.info = info
        self.version = version
        self.firstByte = firstByte
        self.bodyLength = bodyLength
        self.body = body
    }
}

/// A message of a topic, or for a client, and what has become of it.
public struct TracedMessage: Sendable {
    public enum Fate: Hashable, Sendable {
        /// A client, a will or the broker itself has published it here.
        case published
        /// Nobody subscribes to its topic.
        case unmatched
        /// Written to a client. Whether it arrives, the client says.
        case sent
        /// It waits for a client, which is away or has no room.
        case queued
        /// Of QoS 0: its receiver is away.
        case missed
        /// Its publisher subscribes to it and wants none of its own.
        case own
        case dropped(DropReason)
    }

    public let fate: Fate
    /// The first 1,024 bytes of it, as it is called inside the broker.
    public let topic: [UInt8]
    /// The client that published it, or that it was for; nil where nobody knows.
    public let clientIdentifier: EncodedString?
    public let qos: QoS
    public let retain: Bool
    /// 0 for none.
    public let packetIdentifier: UInt16
    /// Of the whole payload; for what is dropped, of topic, properties and payload.
    public let byteCount: Int
    /// The first bytes of it, of what is published alone.
    public let payload: [UInt8]

    package init(
        fate: Fate, topic: [UInt8], clientIdentifier: EncodedString?, qos: QoS, retain: Bool, packetIdentifier: UInt16,
        byteCount: Int, payload: [UInt8]
    ) {
        self.fate = fate
        self.topic = topic
        self.clientIdentifier = clientIdentifier
        self.qos = qos
        self.retain = retain
        self.packetIdentifier = packetIdentifier
        self.byteCount = byteCount
        self.payload = payload
    }
}

/// A line of traces.
public struct TraceRecord: Sendable {
    public enum Event: Sendable {
        case packet(TracedPacket)
        case message(TracedMessage)
        /// A connection has ended: the reason as DISCONNECT says or would say it, nil without one, and in words.
        case ended(EncodedString?, ConnectionInfo, ReasonCode?, words: String)
        /// So many bytes wait for a client whose trace begins: their packets are not recorded.
        case outputWaits(EncodedString?, ConnectionInfo, byteCount: Int)
    }

    /// The numbers of the traces that it belongs to, a bit each.
    public let traces: UInt8
    /// Milliseconds on the shard's clock.
    public let at: UInt64
    public let event: Event

    package init(
        traces: UInt8, at: UInt64, event: Event
    ) {
        self.traces = traces
        self.at = at
        self.event = event
    }
}

/// What a shard has recorded since the last batch was taken.
public struct TraceBatch: Sendable {
    public let shard: Int
    /// In order.
    public let records: [TraceRecord]
    /// By number of trace: how many records there was no room for, behind those that are here.
    public let lost: [UInt64]

    package init(
        shard: Int, records: [TraceRecord], lost: [UInt64]
    ) {
        self.shard = shard
        self.records = records
        self.lost = lost
    }
}

/// What one shard has counted of the messages of a topic filter, since somebody asked for it.
public struct TopicMeterRow: Hashable, Sendable {
    /// As topics are called inside the broker.
    public let filter: TopicFilter
    /// Messages that were published, and the bytes of their payloads.
    public package(set) var received: UInt64 = 0
    public package(set) var receivedBytes: UInt64 = 0
    /// The messages that were sent to subscribers, each counted for itself.
    public package(set) var sent: UInt64 = 0
    public package(set) var sentBytes: UInt64 = 0
    /// Messages that did not get where they were going, each receiver for itself.
    public package(set) var dropped: UInt64 = 0

    public init(_ filter: TopicFilter) { self.filter = filter }

    /// Adds what another shard has counted.
    public mutating func add(_ other: TopicMeterRow) {
        received &+= other.received
        receivedBytes &+= other.receivedBytes
        sent &+= other.sent
        sentBytes &+= other.sentBytes
        dropped &+= other.dropped
    }
}

extension SharedLimits {
    /// Bytes of a payload in a trace: the rest is left out.
    package static let tracePayloadBytesMax = 16_384
}
