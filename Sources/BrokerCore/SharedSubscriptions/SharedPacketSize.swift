import BrokerModel
import MQTTCodec

/// How large a message becomes for members of share groups, to find one that takes it.
struct SharedPacketSize {
    private let topicLength: Int
    private let propertiesLength: Int
    private let payloadLength: Int
    /// Nil for whatever a member has subscribed with.
    private let qos: QoS?

    init(_ parts: borrowing some PublishParts & ~Copyable, qos: QoS?, expires: Bool) {
        topicLength = parts.topic.count
        propertiesLength = parts.properties.count + (expires ? PublishFrame.expiryBytes : 0)
        payloadLength = parts.payload.count
        self.qos = qos
    }

    /// The bytes of the packet for a client that has subscribed so. Only clients of 5.0 have a bound.
    /// [MQTT-3.1.2-25 v5]
    func byteCount(_ terms: SubscriptionTerms) -> Int {
        PublishHeader.encodedSize(
            version: .v5, qos: qos.map { min($0, terms.maximumQoS) } ?? terms.maximumQoS, topicLength: topicLength,
            propertiesLength: propertiesLength
                + (terms.identifier == 0 ? 0 : SubscriptionIdentifiers([terms.identifier]).encoded.count),
            payloadLength: payloadLength)
    }
}

extension ShareGroups {
    /// The member of a group whose turn it is to get a message, among those that take one of its size; if there is
    /// none, anyone: there it is counted as too large.
    @inline(__always)
    func chooseMember(
        of group: UInt32, for publication: borrowing Publication, except excluded: UInt64 = 0, isHere: Bool = false
    ) -> GroupMember? {
        if shard.groups[group]?.hasBoundedMember ?? false,
            let fitting = shard.groups[group]?.choose(
                for: publication.topic, except: excluded, isHere: isHere, size: size(of: publication))
        {
            return fitting
        }
        return shard.groups[group]?.choose(for: publication.topic, except: excluded, isHere: isHere)
    }

    func size(of publication: borrowing Publication) -> SharedPacketSize {
        SharedPacketSize(
            publication, qos: shard.settings.upgradesOutgoingQoS ? nil : publication.qos,
            expires: publication.expiresAt != Message.neverExpires)
    }

    func size(of entry: SharedEntry) -> SharedPacketSize {
        SharedPacketSize(
            entry.message, qos: shard.settings.upgradesOutgoingQoS ? nil : entry.qos,
            expires: entry.message.expiresAt != Message.neverExpires)
    }

    /// The largest packet that a member's client takes: any while it is away.
    func packetBytesMax(of session: Session) -> UInt32 { session.connection?.with { $0.maximumPacketSize } ?? .max }

    /// Another member than the one that a group on another shard chose, if the message is too large for that one's
    /// client by now.
    func otherMember(
        thanChosen session: Session?, _ publication: borrowing Publication, _ terms: SubscriptionTerms, of serial: UInt32
    ) -> GroupMember? {
        guard let session, let bound = session.connection?.with({ $0.maximumPacketSize }),
            bound < BrokerSettings.packetBytesLargest, size(of: publication).byteCount(terms) > bound,
            let group = shard.groups.find(serial: serial)
        else { return nil }
        return shard.groups[group]?.choose(for: publication.topic, except: session.key, size: size(of: publication))
    }
}

/// A message that a share group had given to a session, taken back from it.
struct SharedEntry {
    let message: Message
    /// The group's serial number.
    let group: UInt32
    let qos: QoS
    /// The key of its row in the store, 0 for none: to be ended when another member has the message.
    let storeNumber: UInt64
    let hasFlow: Bool
    let mark: DispatchToken?
    /// What a cluster's log calls the message.
    let name: MessageName

    /// Whether it must not be on two shards at a time.
    var staysOnShard: Bool { storeNumber != 0 && qos == .exactlyOnce }
}
