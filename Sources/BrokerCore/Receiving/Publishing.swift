import BrokerModel
import MQTTCodec

/// PUBLISH from a client.
struct Publishing {
    let shard: BrokerShard

    ///
    /// - Parameter isOfRow: whether what the client has sent behind it is worked off next.
    @inline(__always)
    func handlePublish(_ view: PublishView, _ session: Session, _ connection: Connection, isOfRow: Bool) {
        guard var topic = resolveTopic(of: view, connection) else { return }
        shard.storing.beginPacket()
        if let extras = connection.extras {
            guard isWithinRates(extras, view, connection) else { return }
            if !extras.mountPoint.isEmpty { topic = mounted(topic, extras.mountPoint) }
        }
        // A message that was received and not yet released is the same message. [MQTT-4.3.3-10 v5]
        let digest = view.qos == .exactlyOnce ? shard.storing.digest(of: view, topic) : 0
        if view.qos == .exactlyOnce, session.receivedIdentifiers.contains(view.packetIdentifier),
            !isReused(view, digest, session, connection)
        {
            receivedAgain(view, topic, session, connection)
            return
        }
        if let objection = violation(by: view, on: connection) {
            if objection.reason == .qosNotSupported {
                shard.log(.information) { "Too high QoS in PUBLISH from \(connection.name), disconnecting." }
            }
            shard.disconnecting.refuse(connection, objection.reason, because: objection.explanation)
            return
        }
        shard.statistics.messagesReceivedByQoS[view.qos] &+= 1
        connection.traffic.receivedMessages &+= 1
        shard.statistics.publishBytesReceived &+= UInt64(view.payload.count)
        if let (reason, drop, words) = publishObjection(view, topic, session) {
            if drop == .notAuthorised, shard.accessChecks.mustAsk(.publish, topic, session, connection) {
                // It comes again.
                shard.statistics.messagesReceivedByQoS[view.qos] &-= 1
                connection.traffic.receivedMessages &-= 1
                shard.statistics.publishBytesReceived &-= UInt64(view.payload.count)
                return
            }
            shard.log(.debug) { Self.line(Self.verb(for: drop), topic, view, connection) }
            if drop == .notAuthorised { shard.accessChecks.logDenied(publish: topic, of: session, connection) }
            shard.drops.drop(drop, DroppedMessage(view, topic), for: session)
            if reason == .malformedPacket {
                receivedTooDeep(view, session, connection)
            } else if drop == .noRoom, connection.version != .v5, view.qos > .atMostOnce {
                shard.queueRoom.leaveUnanswered(connection)
            } else {
                shard.receiving.answerRefused(view, session, connection, reason, because: words)
            }
            return
        }
        shard.log(.debug) { Self.line("Received", topic, view, connection) }
        if topic[0] == UInt8(ascii: "$"), ControlTopics.isControl(topic) {
            return shard.control.receivedControl(view, topic, session, connection)
        }
        if let journal = shard.journal, shard.storing.isStoreInTrouble(journal), shard.storing.mustBeKept(view, topic, session) {
            shard.storing.refuseUnstorable(view, topic, session, connection)
            return
        }
        var publication = publication(view, topic, session)
        publication.isOfRow = isOfRow
        // PUBREC goes before what the message causes, and says nothing of it, as with mosquitto; with a store it waits
        // for that.
        guard view.qos < .exactlyOnce || shard.journal != nil else {
            answer(view, session, connection, .success, digest: digest)
            publish(&publication)
            return
        }
        var hasReceivers = true
        if view.qos == .exactlyOnce, let cluster = shard.cluster {
            publishReceived(&publication, view, session, cluster, digest: Storing.shortDigest(digest))
        } else {
            hasReceivers = publish(&publication)
        }
        let reason: ReasonCode = hasReceivers || view.qos == .exactlyOnce ? .success : .noMatchingSubscribers
        if let choices = publication.choices {
            answerLate(&publication, choices, view, session, connection, reason, digest)
        } else {
            answer(view, session, connection, reason, isKept: shard.storing.hasChanged, digest: digest)
        }
    }

    /// Whether a QoS 2 message with an identifier that is known here is another one than the first, so that it is no
    /// copy of it: its sender has begun anew and forgotten what it had sent, as a device does whose power was cut. As
    /// with mosquitto, it is taken, and what was known of the first is forgotten.
    @inline(never)
    private func isReused(_ view: PublishView, _ digest: UInt64, _ session: Session, _ connection: Connection) -> Bool {
        let known = session.receivedIdentifiers.digest(of: view.packetIdentifier)
        guard known != 0, known != Storing.shortDigest(digest) else { return false }
        shard.log(.warning) {
            "Reused message ID \(view.packetIdentifier) from \(connection.name) detected. Clearing from storage."
        }
        _ = session.receivedIdentifiers.remove(view.packetIdentifier)
        if connection.receivedInFlight > 0 { connection.receivedInFlight &-= 1 }
        shard.sessionRows.forgetReceipt(view.packetIdentifier, of: session)
        // The other shards keep what they know: it names the first message, and they take another one in its place.
        let receipt = StoredReceipt(session: session.key, packetIdentifier: view.packetIdentifier).key
        shard.storing.receivedRelease(receipt, shard.receipts.takeChoices(for: receipt).map(\.group))
        return true
    }

    /// A message has come whose topic has too many levels: as with mosquitto, the connection ends. A part of the
    /// process is only told.
    private func receivedTooDeep(_ view: PublishView, _ session: Session, _ connection: Connection) {
        guard !connection.client.isLocal else {
            return shard.receiving.answerRefused(
                view, session, connection, .topicNameInvalid,
                because: "the topic has more than \(shard.settings.topicLevelsMax) levels")
        }
        shard.disconnecting.refuse(
            connection, .malformedPacket, because: "the topic has more than \(shard.settings.topicLevelsMax) levels.")
    }

    /// A client has sent a QoS 2 message again that is known here. It is taken no second time, and gets its PUBREC
    /// whatever would be said to it today; other shards may have lost their part of it in a crash, and get it again
    /// only if it is the same, and may still be published.
    @inline(never)
    private func receivedAgain(
        _ view: PublishView, _ topic: UnsafeRawBufferPointer, _ session: Session, _ connection: Connection
    ) {
        shard.log(.debug) { Self.line("Received", topic, view, connection) }
        // What a cluster has logged is received nowhere before, and lost nowhere after.
        if shard.receipts.hasUncertain, shard.clusterLog == nil, !ControlTopics.isControl(topic),
            mayGoAgain(view, topic, session, connection)
        {
            var publication = publication(view, topic, session)
            shard.storing.forwardAgain(&publication, view.packetIdentifier, of: session)
        }
        if view.retain, let cluster = shard.cluster, mayGoAgain(view, topic, session, connection) {
            let receipt = StoredReceipt(session: session.key, packetIdentifier: view.packetIdentifier).key
            if shard.receipts.takeRestored(receipt) {
                var publication = publication(view, topic, session)
                shard.retainedMessages.retain(&publication, as: shard.clusterMessaging.nextChange(publication, cluster))
                shard.dispatcher.finish(&publication)
            }
        }
        // Also on what was sent for it when it came first, perhaps on an earlier connection.
        shard.storing.sendWhenDurable(.pubrec, view.packetIdentifier, dependingOn: .everything, to: connection)
    }

    /// Whether the rules of today let a message pass that was taken before a crash. It has its place among those in
    /// flight, and its room.
    private func mayGoAgain(
        _ view: PublishView, _ topic: UnsafeRawBufferPointer, _ session: Session, _ connection: Connection
    ) -> Bool {
        if let advertisedLimits = connection.advertisedLimits, limitViolation(view, advertisedLimits, inFlight: 0) != nil {
            return false
        }
        return publishObjection(view, topic, session).map { $0.drop == .noRoom } ?? true
    }

    @inline(__always)
    private func publication(_ view: PublishView, _ topic: UnsafeRawBufferPointer, _ session: Session) -> Publication {
        var publication = Publication(
            topic: topic, properties: forwardedProperties(of: view), payload: view.payload, qos: view.qos, retain: view.retain,
            expiresAt: view.messageExpiryInterval.map { shard.now &+ UInt64($0) &* 1000 } ?? Message.neverExpires,
            publisher: session.publisherKey)
        publication.sender = Reference(session)
        publication.receipt = shard.storing.receipt(of: view, session)
        publication.mustArrive = view.qos > .atMostOnce
        if view.retain { publication.source = shard.retainedMessages.retainedSource(of: session) }
        return publication
    }

    /// PUBREC for a QoS 2 message that a share group gives to another shard: first the choice has to be durable, for
    /// sent again the message might be given to another member; then the message at that shard.
    private func answerLate(
        _ publication: inout Publication, _ choices: [GroupChoice], _ view: PublishView, _ session: Session,
        _ connection: Connection, _ reason: ReasonCode, _ digest: UInt64
    ) {
        _ = session.receivedIdentifiers.insert(view.packetIdentifier, digest: Storing.shortDigest(digest))
        connection.receivedInFlight &+= 1
        shard.sessionRows.keepReceipt(view.packetIdentifier, of: session, digest: digest, choices)
        shard.receipts.choose(choices, for: publication.receipt)
        let dispatch = HeldDispatch(
            message: publication.makeMessage(shard.ledger), receipt: publication.receipt, choices: choices,
            dependency: shard.storing.dependency)
        shard.storing.sendWhenDurable(dispatch, view.packetIdentifier, reason, to: connection)
    }

    /// Keeps the message if it is to be retained, and routes it.
    ///
    /// - Returns: whether anybody subscribes to its topic, as far as that is known.
    @discardableResult
    func publish(_ publication: inout Publication) -> Bool {
        if let watcher = shard.inspection.watcher { shard.queries.show(publication, to: watcher) }
        var hasReceivers = true
        if let cluster = shard.cluster {
            // Who subscribes elsewhere is not known here.
            shard.clusterMessaging.publishToCluster(&publication, cluster)
        } else {
            hasReceivers = shard.dispatcher.route(&publication, .node)
            if publication.retain { shard.retainedMessages.retain(&publication) }
        }
        shard.dispatcher.finish(&publication)
        return hasReceivers
    }

    /// Gives a client's QoS 2 message to the cluster, whose log is to say of its packet identifier that it was
    /// received.
    @inline(never)
    private func publishReceived(
        _ publication: inout Publication, _ view: PublishView, _ session: Session, _ cluster: ClusterPort, digest: UInt32
    ) {
        let step = shard.clusterLogReading.receivedStep(view.packetIdentifier, digest: digest, session, cluster)
        if let watcher = shard.watcher { shard.queries.show(publication, to: watcher) }
        shard.clusterMessaging.publishToCluster(&publication, cluster, step)
        shard.dispatcher.finish(&publication)
    }

    /// The acknowledgement that the QoS asks for. [MQTT-3.3.4-1 v5] [MQTT-3.3.4-1 v3.1.1]
    ///
    /// - Parameters:
    ///   - isKept: whether the message is to outlive a crash somewhere, so that the acknowledgement has to wait for
    ///     that.
    ///   - digest: of a QoS 2 message that is taken.
    func answer(
        _ view: PublishView, _ session: Session, _ connection: Connection, _ reason: ReasonCode, isKept: Bool = false,
        digest: UInt64 = 0
    ) {
        switch view.qos {
        case .atMostOnce: return
        case .atLeastOnce:
            // Acknowledgements keep the order of their messages. [MQTT-4.6.0-2 v5]
            if isKept || connection.holding.count > 0 {
                shard.storing.sendWhenDurable(
                    .puback, view.packetIdentifier, reason, dependingOn: shard.storing.dependency, to: connection)
            } else {
                shard.sending.sendAcknowledgement(.puback, view.packetIdentifier, reason, to: connection)
            }
        case .exactlyOnce:
            // A refused message's identifier is free at once. [MQTT-4.3.3-9 v5]
            if reason.isError {
                shard.storing.sendReleased(view.packetIdentifier, of: session)
            } else {
                _ = session.receivedIdentifiers.insert(view.packetIdentifier, digest: Storing.shortDigest(digest))
                connection.receivedInFlight &+= 1
                if !shard.clusterLogReading.awaitsLog(view.packetIdentifier, of: session, digest: digest) {
                    shard.sessionRows.keepReceipt(view.packetIdentifier, of: session, digest: digest)
                }
            }
            if isKept || session.storage.isStored || connection.holding.count > 0 {
                shard.storing.sendWhenDurable(
                    .pubrec, view.packetIdentifier, reason, dependingOn: shard.storing.dependency, to: connection)
            } else {
                shard.sending.sendAcknowledgement(.pubrec, view.packetIdentifier, reason, to: connection)
            }
        }
    }

    /// The topic: as it stands in the packet, which may give it an alias, or as the alias says. Ends the connection on
    /// a wrong alias.
    @inline(__always)
    private func resolveTopic(of view: PublishView, _ connection: Connection) -> UnsafeRawBufferPointer? {
        view.topicAlias == 0 ? view.topic : resolveAlias(of: view, connection)
    }

    private func resolveAlias(of view: PublishView, _ connection: Connection) -> UnsafeRawBufferPointer? {
        // [MQTT-3.3.2-9 v5]
        guard view.topicAlias <= connection.advertisedLimits?.topicAliasMaximum ?? 0 else {
            shard.disconnecting.refuse(
                connection, .topicAliasInvalid, because: "Topic Alias \(view.topicAlias) exceeds Topic Alias Maximum.")
            return nil
        }
        let extras = connection.makeExtras()
        if view.topic.count > 0 {
            let before = extras.receivedAliases.byteCount
            extras.receivedAliases.set(view.topicAlias, to: view.topic)
            if extras.receivedAliases.byteCount != before { shard.memoryBound.recount(connection) }
            return view.topic
        }
        guard let topic = extras.receivedAliases.topic(of: view.topicAlias) else {
            shard.disconnecting.refuse(
                connection, .protocolError, because: "Topic Alias \(view.topicAlias) was not set on this connection.")
            return nil
        }
        let copy = shard.scratch.topic.reserve(topic.count)
        topic.withUnsafeBytes { copy.copyMemory(from: $0.baseAddress.unsafelyUnwrapped, byteCount: topic.count) }
        return UnsafeRawBufferPointer(start: copy, count: topic.count)
    }

    /// What makes the connection end: the client was told the limit and passed it.
    @inline(__always)
    private func violation(
        by view: PublishView, on connection: Connection
    ) -> (reason: ReasonCode, explanation: String)? {
        guard view.qos > .atMostOnce || view.retain, let advertisedLimits = connection.currentAdvertisedLimits else { return nil }
        let inFlight = connection.version == .v5 ? Int(connection.receivedInFlight) : 0
        return advertisedLimits.with {
            $0.takesAny(whenInFlight: inFlight) ? nil : limitViolation(view, $0, inFlight: inFlight)
        }
    }

    /// - Parameter inFlight: how many messages of the client's are; 0 if that does not matter.
    private func limitViolation(
        _ view: PublishView, _ advertisedLimits: AdvertisedLimits, inFlight: Int
    ) -> (reason: ReasonCode, explanation: String)? {
        if view.qos > .atMostOnce {
            let maximum = advertisedLimits.maximumQoS
            if view.qos > maximum {
                return (.qosNotSupported, "PUBLISH has QoS \(view.qos.rawValue); the maximum is \(maximum.rawValue).")
            }
            // [MQTT-3.3.4-7 v5]
            if advertisedLimits.inFlightMessagesMax > 0, inFlight >= advertisedLimits.inFlightMessagesMax {
                return (.receiveMaximumExceeded, "more than \(advertisedLimits.inFlightMessagesMax) messages are in flight.")
            }
        }
        if view.retain, !advertisedLimits.retainAvailable {
            return (.retainNotSupported, "PUBLISH has RETAIN set; retained messages are switched off.")
        }
        return nil
    }

    /// What makes the message be refused, and what its client is told of it: nothing that it does not know, such as the
    /// lines of the access rules. The connection goes on.
    @inline(__always)
    private func publishObjection(
        _ view: PublishView, _ topic: UnsafeRawBufferPointer, _ session: Session
    ) -> (reason: ReasonCode, drop: DropReason, words: String)? {
        if topic[0] == UInt8(ascii: "$") {
            if let words = shard.bridgeStateTopics.reservedTopicObjection(topic, of: session) {
                return (.notAuthorized, .notAuthorised, words)
            }
            if shard.bridgeStateTopics.isTooMuch(
                ofBridge: topic, byteCount: topic.count + view.properties.count + view.payload.count)
            {
                return (.quotaExceeded, .noRoom, BridgeStateTopics.tooMuchWords)
            }
        }
        if let access = session.owner.access, !access.mayPublish(topic: topic, qos: view.qos, retain: view.retain),
            shard.accessChecks.decision(.publish, topic, session) != true
        {
            return (.notAuthorized, .notAuthorised, "not authorized to publish to this topic")
        }
        if isTooDeep(topic) { return (.malformedPacket, .refused, "the topic has too many levels") }
        if isTooLong(topic) {
            return (.topicNameInvalid, .refused, "the topic has more than \(min(shard.settings.topicBytesMax, 65_535)) bytes")
        }
        if shard.settings.payloadBytesMax > 0, view.payload.count > shard.settings.payloadBytesMax {
            return (
                .implementationSpecificError, .payloadTooLarge, "the payload has more than \(shard.settings.payloadBytesMax) bytes"
            )
        }
        // Removing a retained message makes room.
        if shard.memoryBound.isMemoryFull, !(view.retain && view.payload.isEmpty) {
            return (.quotaExceeded, .noRoom, "quota exceeded: the broker's memory for clients is full")
        }
        if view.retain, let cluster = shard.cluster,
            let (reason, drop) = shard.clusterMessaging.retainObjection(view, topic, session, by: cluster)
        {
            return (
                reason, drop,
                drop == .noRoom
                    ? "quota exceeded: too many retained messages wait for the cluster's servers"
                    : "the retained message is larger than the cluster keeps"
            )
        }
        if !shard.room.ofQueues.isEmpty, view.qos > .atMostOnce, shard.queueRoom.isAwaitingRoom(session) {
            return (.quotaExceeded, .noRoom, "quota exceeded: an earlier message of the client waits for room")
        }
        if shard.room.mayRefusePublishers, view.qos > .atMostOnce {
            if shard.queueRoom.isRefusedByLog(topic) {
                return (.quotaExceeded, .noRoom, "quota exceeded: the cluster's log takes no messages now")
            }
            if shard.queueRoom.isFullForSomebody(view, topic, session) {
                return (.quotaExceeded, .noRoom, "quota exceeded: the queue of a receiver is full")
            }
        }
        if shard.settings.validatesPayloadFormat, view.payloadFormatIsUTF8, UTF8Validation.validate(view.payload) != nil {
            return (.payloadFormatInvalid, .refused, "the payload is not valid UTF-8")
        }
        return nil
    }

    /// Whether the client keeps within what it may send a second; ends the connection if not.
    private func isWithinRates(_ extras: ConnectionExtras, _ view: PublishView, _ connection: Connection) -> Bool {
        let count = view.topic.count + view.properties.count + view.payload.count
        guard extras.messageRate?.take(1, now: shard.now) ?? true else {
            shard.disconnecting.refuse(connection, .messageRateTooHigh, because: "the client exceeds its rate of messages.")
            return false
        }
        guard extras.byteRate?.take(count, now: shard.now) ?? true else {
            shard.disconnecting.refuse(connection, .quotaExceeded, because: "the client exceeds its rate of bytes.")
            return false
        }
        return true
    }

    /// The topic as it is called inside the broker.
    private func mounted(_ topic: UnsafeRawBufferPointer, _ mountPoint: [UInt8]) -> UnsafeRawBufferPointer {
        let count = mountPoint.count + topic.count
        let copy = shard.scratch.mount.reserve(count)
        mountPoint.withUnsafeBytes { copy.copyMemory(from: $0.baseAddress.unsafelyUnwrapped, byteCount: $0.count) }
        (copy + mountPoint.count).copyMemory(from: topic.baseAddress.unsafelyUnwrapped, byteCount: topic.count)
        return UnsafeRawBufferPointer(start: copy, count: count)
    }

    /// Whether a topic name or filter has more bytes than it may.
    func isTooLong(_ topic: some Collection<UInt8>) -> Bool { topic.count > min(shard.settings.topicBytesMax, Int(UInt16.max)) }

    /// Whether a topic name or filter has more levels than it may. As with mosquitto, it ends the connection.
    func isTooDeep(_ topic: some Collection<UInt8>) -> Bool {
        // There is at most one level more than there are bytes.
        if topic.count < shard.settings.topicLevelsMax { return false }
        var levels = 1
        for byte in topic where byte == UInt8(ascii: "/") { levels += 1 }
        return levels > shard.settings.topicLevelsMax
    }

    /// The properties that travel on. Without alias and expiry they are sent on from where they lie.
    @inline(__always)
    private func forwardedProperties(of view: PublishView) -> UnsafeRawBufferPointer {
        view.forwardedPropertiesLength == view.properties.count ? view.properties : copyForwardedProperties(of: view)
    }

    private func copyForwardedProperties(of view: PublishView) -> UnsafeRawBufferPointer {
        let copy = shard.scratch.property.reserve(view.forwardedPropertiesLength)
        view.copyForwardedProperties(to: copy)
        return UnsafeRawBufferPointer(start: copy, count: view.forwardedPropertiesLength)
    }

    /// mosquitto's words for a message that is not taken.
    private static func verb(for drop: DropReason) -> String {
        switch drop {
        case .notAuthorised: "Denied"
        case .payloadTooLarge: "Dropped too large"
        case .noRoom, .refused, .queueFull, .outputFull, .tooLargeForClient, .expired, .unreadable: "Dropped"
        }
    }

    /// - Parameter topic: as it is called inside the broker.
    private static func line(
        _ verb: String, _ topic: UnsafeRawBufferPointer, _ view: PublishView, _ connection: Connection
    ) -> String {
        let topic = LoggedText(topic)
        let (duplicate, retain) = (view.duplicate ? 1 : 0, view.retain ? 1 : 0)
        return "\(verb) PUBLISH from \(connection.name) (d\(duplicate), q\(view.qos.rawValue), r\(retain), "
            + "m\(view.packetIdentifier), '\(topic)', ... (\(view.payload.count) bytes))"
    }
}
