import BrokerModel
import MQTTCodec

/// The few names that scripts choose from, so that clients meet.
enum Scenery {
    static let identifiers: [EncodedString] = ["a", "b", "c", "d", "e", "a/b", "", "+"]
    static let userNames: [EncodedString?] = [nil, "anna", "bert", "a/b"]
    static let filters: [TopicFilter] = [
        "#", "+", "t", "t/+", "t/#", "+/u", "t/u", "$share/g/t/#", "$share/g/#", "$share/h/t", "$share/g/+/u", "$SYS/#", "/", "+/+",
        "t/u/v/#", "m/t",
    ]
    static let topics: [EncodedString] = [
        "t", "t/u", "t/u/v", "u", "/", "m/t", "$SYS/x", "", "long/long/long/long/long/long/long", "t/",
    ]
    static let payloadCounts = [0, 1, 3, 40, 300, 5000, 70_000]
    /// In seconds. Sessions last at most an hour, so that all come to their end.
    static let intervals: [UInt32?] = [nil, 0, 1, 30, 3600, .max]
    static let sessionSecondsMax: UInt32 = 3600

    static func properties(of choice: Int) -> Properties {
        var properties = Properties()
        switch choice {
        case 0: break
        case 1: properties.messageExpiryInterval = 1
        case 2: properties.contentType = "text"
        case 3: properties.userProperties = [UserProperty(name: "k", value: "v"), UserProperty(name: "k", value: "v")]
        case 4: properties.responseTopic = "t/u"
        default: properties.payloadFormatIndicator = 1
        }
        return properties
    }

    /// The settings that two bytes stand for. Listener 0 lets in everybody; 1 has a mount point and passwords; 2 access
    /// rules and QoS 1.
    static func settings(_ choice: UInt8, _ more: UInt8) -> BrokerSettings {
        var settings = BrokerSettings()
        settings.systemIntervalSeconds = choice & 1 == 0 ? 0 : 10
        settings.inFlightMessagesMax = [20, 1, 2, 0][Int(choice >> 1 & 3)]
        settings.queuedMessagesMax = [1000, 1, 5, 0][Int(choice >> 3 & 3)]
        settings.queueOverflow = [.dropsNewest, .dropsOldest, .refusesPublisher, .dropsNewest][Int(choice >> 5 & 3)]
        settings.queuesQoS0 = choice & 128 != 0
        settings.upgradesOutgoingQoS = more & 1 != 0
        settings.outputBytesMax = more & 2 == 0 ? 64 << 20 : 4000
        settings.queuedBytesMax = more & 4 == 0 ? 0 : 2000
        settings.inFlightBytesMax = more & 8 == 0 ? 0 : 1000
        settings.keptBytesMax = more & 16 == 0 ? 0 : 20_000
        settings.subscriptionsPerClientMax = more & 32 == 0 ? 0 : 3
        settings.messagesPerSecondMax = more & 64 == 0 ? 0 : 5
        settings.sessionsMax = more & 128 == 0 ? nil : 3
        settings.unstoredBytesMax = more & 32 == 0 ? 256 << 20 : 3000
        settings.foreignSession = choice & 96 == 96 ? .refusesNewcomer : .discards
        settings.connectingBytesMax = more & 8 == 0 ? 64 << 20 : 3000
        settings.sessionExpirySecondsMax = sessionSecondsMax
        settings.authenticationMethods = ["M"]
        settings.logTopics = more & 3 == 3 ? .all : .standard
        settings.listeners = [ListenerPolicy(), mounted, ruled(more)]
        return settings
    }

    private static var mounted: ListenerPolicy {
        var policy = ListenerPolicy()
        policy.mountPoint = MountPoint("m/")
        policy.checksPasswords = true
        policy.allowsAnonymous = false
        policy.usesUserNameAsClientIdentifier = true
        return policy
    }

    private static func ruled(_ choice: UInt8) -> ListenerPolicy {
        var policy = ListenerPolicy()
        policy.maximumQoS = .atLeastOnce
        policy.topicAliasMaximum = 2
        policy.sentTopicAliasMaximum = 1
        policy.checksAccessOnSubscribe = choice & 1 != 0
        policy.accessControl = AccessControl(
            anonymous: rules([(.read, "t/#")], isPattern: false),
            users: ["anna": rules([([.read, .write], "#"), (.deny, "t/u/v")], isPattern: false)],
            patterns: rules([([.read, .write], "t/%c"), (.write, "t/+"), (.read, "%u/#")], isPattern: true))
        return policy
    }

    private static func rules(_ texts: [(AccessPermission, String)], isPattern: Bool) -> [AccessRule] {
        texts.compactMap { permission, text in
            AccessFilter(Array(text.utf8), isPattern: isPattern).map { AccessRule(permission, $0) }
        }
    }
}
