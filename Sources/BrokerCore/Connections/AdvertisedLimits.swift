import BrokerModel
import MQTTCodec

/// What CONNACK tells a client of the broker's limits.
///
/// It holds for as long as the connection does, also when the operator lowers a limit meanwhile: the client cannot know. One object
/// for all connections that came through a listener under the same settings.
final class AdvertisedLimits {
    let packetBytesMax: Int
    let inFlightMessagesMax: Int
    let topicAliasMaximum: UInt16
    let maximumQoS: QoS
    let retainAvailable: Bool
    private let takesAll: Bool
    let subscriptionIdentifiersAvailable: Bool

    init(_ settings: BrokerSettings, _ policy: ListenerPolicy) {
        packetBytesMax = settings.packetBytesMax
        inFlightMessagesMax = settings.inFlightMessagesMax
        topicAliasMaximum = policy.topicAliasMaximum
        maximumQoS = policy.maximumQoS
        retainAvailable = settings.retainAvailable
        takesAll = policy.maximumQoS == .exactlyOnce && settings.retainAvailable
        subscriptionIdentifiersAvailable = settings.subscriptionIdentifiersAvailable
    }

    /// Whether a message is welcome whatever its QoS and RETAIN, from a client with that many QoS 2 messages in flight.
    @inline(__always)
    func takesAny(whenInFlight count: Int) -> Bool { takesAll && (inFlightMessagesMax == 0 || count < inFlightMessagesMax) }

    /// One for each listener.
    static func all(_ settings: BrokerSettings) -> [AdvertisedLimits] { settings.listeners.map { AdvertisedLimits(settings, $0) } }
}
