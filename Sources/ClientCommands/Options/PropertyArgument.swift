internal import MQTTCodec

extension PacketProperties {
    /// Takes the values of -D off the front: packet, property and value; of user-property name and value.
    mutating func add(_ words: inout ArraySlice<String>) throws(ArgumentError) {
        let tooFew = ArgumentError("Error: --property argument given but not enough arguments specified.")
        guard words.count >= 2, let packetName = words.popFirst(), let propertyName = words.popFirst() else { throw tooFew }
        guard let packet = Packet(rawValue: packetName.lowercased()) else {
            guard !Packet.namesOfOthers.contains(packetName.lowercased()) else {
                throw ArgumentError("Error: \(propertyName) property not supported for \(packetName) in --property argument.")
            }
            throw ArgumentError("Error: Invalid command given in --property argument.")
        }
        guard let name = Name(rawValue: propertyName.lowercased()) else {
            throw ArgumentError("Error: Invalid property name given in --property argument.")
        }
        guard let value = words.popFirst() else { throw tooFew }
        var second: String?
        if name == .userProperty {
            guard let next = words.popFirst() else { throw tooFew }
            second = next
        }
        guard name.packets.contains(packet) else {
            throw ArgumentError("Error: \(propertyName) property not allowed for \(packetName) in --property argument.")
        }
        guard !name.isServers(in: packet) else {
            throw ArgumentError("Error: \(propertyName) property not supported for \(packetName) in --property argument.")
        }
        let place = packet.place
        let isNew = try set(name, value, second, in: &self[keyPath: place])
        guard isNew else {
            throw ArgumentError("Error in \(packet.title) properties: Duplicate property in property list")
        }
    }

    /// Returns whether the property was not there before.
    private func set(
        _ name: Name, _ value: String, _ second: String?, in properties: inout Properties
    ) throws(ArgumentError) -> Bool {
        switch name {
        case .payloadFormatIndicator: return put(try number(value, name, to: 1), \.payloadFormatIndicator, &properties)
        case .messageExpiryInterval: return put(try number(value, name), \.messageExpiryInterval, &properties)
        case .willDelayInterval: return put(try number(value, name), \.willDelayInterval, &properties)
        case .sessionExpiryInterval: return put(try number(value, name), \.sessionExpiryInterval, &properties)
        case .maximumPacketSize: return put(try number(value, name, from: 1), \.maximumPacketSize, &properties)
        case .receiveMaximum: return put(try number(value, name, from: 1), \.receiveMaximum, &properties)
        case .topicAliasMaximum: return put(try number(value, name), \.topicAliasMaximum, &properties)
        case .topicAlias: return put(try number(value, name, from: 1), \.topicAlias, &properties)
        case .requestProblemInformation:
            return put(try number(value, name, to: 1) as UInt8 == 1, \.requestProblemInformation, &properties)
        case .requestResponseInformation:
            return put(try number(value, name, to: 1) as UInt8 == 1, \.requestResponseInformation, &properties)
        case .contentType: return put(try text(value, name), \.contentType, &properties)
        case .responseTopic: return put(try topic(value, name), \.responseTopic, &properties)
        case .authenticationMethod: return put(try text(value, name), \.authenticationMethod, &properties)
        case .reasonString: return put(try text(value, name), \.reasonString, &properties)
        case .correlationData: return put(try data(value, name), \.correlationData, &properties)
        case .authenticationData: return put(try data(value, name), \.authenticationData, &properties)
        case .subscriptionIdentifier:
            guard properties.subscriptionIdentifiers.isEmpty else { return false }
            properties.subscriptionIdentifiers = [try number(value, name, from: 1, to: 268_435_455)]
            return true
        case .userProperty:
            properties.userProperties.append(UserProperty(name: try text(value, name), value: try text(second ?? "", name)))
            return true
        case .assignedClientIdentifier, .serverKeepAlive, .responseInformation, .serverReference, .maximumQoS, .retainAvailable,
            .wildcardSubscriptionAvailable, .subscriptionIdentifierAvailable, .sharedSubscriptionAvailable:
            // No packet of a client has them.
            return true
        }
    }

    private func put<Value>(
        _ value: Value?, _ place: WritableKeyPath<Properties, Value?>, _ properties: inout Properties
    ) -> Bool {
        guard properties[keyPath: place] == nil else { return false }
        properties[keyPath: place] = value
        return true
    }

    private func number<Number: FixedWidthInteger>(
        _ text: String, _ name: Name, from least: Number = 0, to most: Number = .max
    ) throws(ArgumentError) -> Number {
        guard let number = Number(text), number >= least, number <= most else {
            throw ArgumentError("Error: Property value (\(text)) out of range for property \(name.rawValue).")
        }
        return number
    }

    private func text(_ text: String, _ name: Name) throws(ArgumentError) -> EncodedString {
        guard let encoded = EncodedString(text) else {
            throw ArgumentError("Error: The property \(name.rawValue) takes at most 65535 bytes and no null character.")
        }
        return encoded
    }

    private func topic(_ text: String, _ name: Name) throws(ArgumentError) -> EncodedString {
        guard let topic = TopicName(text) else {
            throw ArgumentError("Error: Invalid \(name.rawValue) '\(text)', does it contain '+' or '#'?")
        }
        return topic.text
    }

    private func data(_ text: String, _ name: Name) throws(ArgumentError) -> [UInt8] {
        guard text.utf8.count <= 65_535 else {
            throw ArgumentError("Error: The property \(name.rawValue) takes at most 65535 bytes.")
        }
        return Array(text.utf8)
    }

    /// The packets whose properties can be given.
    private enum Packet: String {
        case connect, publish, subscribe, unsubscribe, disconnect, will

        var place: WritableKeyPath<PacketProperties, Properties> {
            switch self {
            case .connect: \.connect
            case .publish: \.publish
            case .subscribe: \.subscribe
            case .unsubscribe: \.unsubscribe
            case .disconnect: \.disconnect
            case .will: \.will
            }
        }

        var title: String { self == .will ? "Will" : rawValue.uppercased() }

        /// Of packets that clients do not send, or of which the library decides.
        static let namesOfOthers: Set<String> = [
            "connack", "puback", "pubrec", "pubrel", "pubcomp", "suback", "unsuback", "auth", "pingreq", "pingresp",
        ]
    }

    /// The properties, named as the standard names them with dashes.
    private enum Name: String {
        case payloadFormatIndicator = "payload-format-indicator"
        case messageExpiryInterval = "message-expiry-interval"
        case contentType = "content-type"
        case responseTopic = "response-topic"
        case correlationData = "correlation-data"
        case subscriptionIdentifier = "subscription-identifier"
        case sessionExpiryInterval = "session-expiry-interval"
        case assignedClientIdentifier = "assigned-client-identifier"
        case serverKeepAlive = "server-keep-alive"
        case authenticationMethod = "authentication-method"
        case authenticationData = "authentication-data"
        case requestProblemInformation = "request-problem-information"
        case willDelayInterval = "will-delay-interval"
        case requestResponseInformation = "request-response-information"
        case responseInformation = "response-information"
        case serverReference = "server-reference"
        case reasonString = "reason-string"
        case receiveMaximum = "receive-maximum"
        case topicAliasMaximum = "topic-alias-maximum"
        case topicAlias = "topic-alias"
        case maximumQoS = "maximum-qos"
        case retainAvailable = "retain-available"
        case userProperty = "user-property"
        case maximumPacketSize = "maximum-packet-size"
        case wildcardSubscriptionAvailable = "wildcard-subscription-available"
        case subscriptionIdentifierAvailable = "subscription-identifier-available"
        case sharedSubscriptionAvailable = "shared-subscription-available"

        /// Where it may stand (section 2.2.2.2 of the standard).
        var packets: Set<Packet> {
            switch self {
            case .payloadFormatIndicator, .messageExpiryInterval, .contentType, .responseTopic, .correlationData: [.publish, .will]
            case .subscriptionIdentifier: [.publish, .subscribe]
            case .topicAlias: [.publish]
            case .willDelayInterval: [.will]
            case .sessionExpiryInterval: [.connect, .disconnect]
            case .authenticationMethod, .authenticationData, .requestProblemInformation, .requestResponseInformation,
                .receiveMaximum, .topicAliasMaximum, .maximumPacketSize:
                [.connect]
            case .reasonString: [.disconnect]
            case .userProperty: [.connect, .publish, .subscribe, .unsubscribe, .disconnect, .will]
            case .assignedClientIdentifier, .serverKeepAlive, .responseInformation, .serverReference, .maximumQoS, .retainAvailable,
                .wildcardSubscriptionAvailable, .subscriptionIdentifierAvailable, .sharedSubscriptionAvailable:
                []
            }
        }

        /// Whether only servers put it into that packet.
        func isServers(in packet: Packet) -> Bool { self == .subscriptionIdentifier && packet == .publish }
    }
}
