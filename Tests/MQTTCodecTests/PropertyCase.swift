import MQTTCodec
import Testing

/// One property: its bytes, what they mean, and who may carry it, as table 2-4 of the standard says it.
struct PropertyCase: CustomTestStringConvertible, Sendable {
    let bytes: Frame
    let value: Properties
    let carriers: Set<PropertyCarrier>
    let mayRepeat: Set<PropertyCarrier>

    init(
        _ bytes: Frame, _ carriers: Set<PropertyCarrier>, mayRepeat: Set<PropertyCarrier> = [], _ set: (inout Properties) -> Void
    ) {
        self.bytes = bytes
        self.carriers = carriers
        self.mayRepeat = mayRepeat
        value = properties(set)
    }

    var testDescription: String { "property \(bytes)" }

    private static let messages: Set<PropertyCarrier> = [.publishFromClient, .publishFromServer, .will]
    private static let publishes: Set<PropertyCarrier> = [.publishFromClient, .publishFromServer]
    private static let everything = Set(PropertyCarrier.allCases)
    private static let reasons: Set<PropertyCarrier> = [
        .connack, .puback, .pubrec, .pubrel, .pubcomp, .suback, .unsuback, .disconnectFromClient, .disconnectFromServer, .auth,
    ]

    static let all: [PropertyCase] = [
        PropertyCase("01 01", messages) { $0.payloadFormatIndicator = 1 },
        PropertyCase("02 00 00 00 00", messages) { $0.messageExpiryInterval = 0 },
        PropertyCase("03 00 01 'c", messages) { $0.contentType = "c" },
        PropertyCase("08 00 03 'r/t", messages) { $0.responseTopic = "r/t" },
        PropertyCase("09 00 02 00 FF", messages) { $0.correlationData = [0, 0xFF] },
        PropertyCase("0B FF FF FF 7F", [.publishFromServer, .subscribe], mayRepeat: [.publishFromServer]) {
            $0.subscriptionIdentifiers = [268_435_455]
        },
        PropertyCase("11 FF FF FF FF", [.connect, .connack, .disconnectFromClient]) { $0.sessionExpiryInterval = .max },
        PropertyCase("12 00 01 'i", [.connack]) { $0.assignedClientIdentifier = "i" },
        PropertyCase("13 FF FF", [.connack]) { $0.serverKeepAlive = .max },
        PropertyCase("15 00 01 'm", [.connect, .connack, .auth]) { $0.authenticationMethod = "m" },
        PropertyCase("15 00 00 16 00 01 FF", [.connect, .connack, .auth]) {
            $0.authenticationMethod = ""
            $0.authenticationData = [0xFF]
        },
        PropertyCase("17 00", [.connect]) { $0.requestProblemInformation = false },
        PropertyCase("18 00 00 00 01", [.will]) { $0.willDelayInterval = 1 },
        PropertyCase("19 01", [.connect]) { $0.requestResponseInformation = true },
        PropertyCase("1A 00 01 'r", [.connack]) { $0.responseInformation = "r" },
        PropertyCase("1C 00 01 's", [.connack, .disconnectFromServer]) { $0.serverReference = "s" },
        PropertyCase("1F 00 02 C3 A9", reasons) { $0.reasonString = "\u{E9}" },
        PropertyCase("21 00 01", [.connect, .connack]) { $0.receiveMaximum = 1 },
        PropertyCase("22 00 00", [.connect, .connack]) { $0.topicAliasMaximum = 0 },
        PropertyCase("23 00 01", publishes) { $0.topicAlias = 1 },
        PropertyCase("24 00", [.connack]) { $0.maximumQoS = .atMostOnce },
        PropertyCase("25 01", [.connack]) { $0.retainAvailable = true },
        PropertyCase("26 00 01 'k 00 00", everything, mayRepeat: everything) {
            $0.userProperties = [UserProperty(name: "k", value: "")]
        },
        PropertyCase("27 00 00 00 01", [.connect, .connack]) { $0.maximumPacketSize = 1 },
        PropertyCase("28 00", [.connack]) { $0.wildcardSubscriptionAvailable = false },
        PropertyCase("29 00", [.connack]) { $0.subscriptionIdentifierAvailable = false },
        PropertyCase("2A 00", [.connack]) { $0.sharedSubscriptionAvailable = false },
    ]
}
