// What a program has as text: a topic with a room's name in it, a user's words. A literal that is none is a mistake in
// the program; a text that is none is an error, thrown where it is used.

extension TopicName {
    /// A topic that is made at run time, such as `"home/\(room)/lamp"`. Throws `ClientError.topic`, which says what is
    /// wrong, if the text is none.
    public init(validating text: String) throws(ClientError) {
        guard let name = TopicName(text) else { throw .topic("“\(text.shortened)” is no topic: \(text.faultOfTopic)") }
        self = name
    }
}

extension TopicFilter {
    /// A filter that is made at run time, such as `"home/\(room)/+"`. Throws `ClientError.topic`, which says what is
    /// wrong, if the text is none.
    public init(validating text: String) throws(ClientError) {
        guard let filter = TopicFilter(text) else {
            throw .topic("“\(text.shortened)” is no topic filter: \(text.faultOfFilter)")
        }
        self = filter
    }
}

extension EncodedString {
    /// A text that is made at run time. Throws `ClientError.settings` if it has more than 65,535 bytes or the character
    /// U+0000, which MQTT cannot carry.
    public init(validating text: String) throws(ClientError) {
        guard let encoded = EncodedString(text) else {
            throw .settings("“\(text.shortened)” cannot be said in MQTT: \(text.faultOfText)")
        }
        self = encoded
    }
}

extension UserProperty {
    /// With a name and a value that are made at run time. Throws `ClientError.settings` if one has more than 65,535
    /// bytes or the character U+0000.
    @_disfavoredOverload
    public init(name: some StringProtocol, value: some StringProtocol) throws(ClientError) {
        self.init(name: try EncodedString(validating: String(name)), value: try EncodedString(validating: String(value)))
    }
}

extension Publication {
    /// A message for a topic that is made at run time: `try Publication("home/\(room)/lamp", "on")`. Throws
    /// `ClientError.topic`.
    @_disfavoredOverload
    public init(
        _ topic: some StringProtocol, _ payload: Payload = Payload(), qos: QoS = .atMostOnce, retain: Bool = false,
        properties: Properties = Properties()
    ) throws(ClientError) {
        self.init(try TopicName(validating: String(topic)), payload, qos: qos, retain: retain, properties: properties)
    }

    /// How long servers keep the message for subscribers that are away, and the client until it is sent: its Message
    /// Expiry Interval. Nil for ever. Whole seconds, rounded up. MQTT 5.0 only.
    public var messageExpiry: Duration? {
        get { hasProperties ? properties.messageExpiry : nil }
        set { properties.messageExpiry = newValue }
    }
}

extension Will {
    /// A will that says what a message of the client would say.
    ///
    /// - Parameters:
    ///   - publication: what the server publishes, with its properties.
    ///   - delay: how long the server waits, in whole seconds, for the client to come back before it publishes: the
    ///     Will Delay Interval. MQTT 5.0 only.
    public init(_ publication: Publication, delay: Duration = .zero) {
        self.init(
            topic: publication.topic, payload: publication.payload.bytes, qos: publication.qos, retain: publication.retain,
            properties: publication.properties)
        if delay > .zero { properties.willDelay = delay }
    }

    /// A will with a payload as messages have it: `Will(topic: "house/state", payload: "offline", retain: true)`.
    public init(
        topic: TopicName, payload: Payload, qos: QoS = .atMostOnce, retain: Bool = false, properties: Properties = Properties()
    ) {
        self.init(topic: topic, payload: payload.bytes, qos: qos, retain: retain, properties: properties)
    }

    /// As above, for a topic that is made at run time. Throws `ClientError.topic`.
    @_disfavoredOverload
    public init(
        topic: some StringProtocol, payload: Payload = Payload(), qos: QoS = .atMostOnce, retain: Bool = false,
        properties: Properties = Properties()
    ) throws(ClientError) {
        self.init(
            topic: try TopicName(validating: String(topic)), payload: payload, qos: qos, retain: retain, properties: properties)
    }
}

extension Properties {
    /// The Message Expiry Interval as a duration: how long the message may wait. Nil for ever. Set, it is rounded up to
    /// whole seconds.
    public var messageExpiry: Duration? {
        get { messageExpiryInterval.map { .seconds($0) } }
        set { messageExpiryInterval = newValue.map(\.wholeSeconds) }
    }

    /// The Will Delay Interval as a duration: how long the server waits for the client before it publishes the will.
    /// Nil for not at all. Set, it is rounded up to whole seconds.
    public var willDelay: Duration? {
        get { willDelayInterval.map { .seconds($0) } }
        set { willDelayInterval = newValue.map(\.wholeSeconds) }
    }
}

extension Duration {
    /// The duration in whole seconds, rounded up, as far as an interval of MQTT goes.
    fileprivate var wholeSeconds: UInt32 { UInt32(clamping: (milliseconds + 999) / 1000) }
}

extension String {
    /// As much of it as an error shows.
    fileprivate var shortened: String { count > 100 ? "\(prefix(100))…" : self }

    /// Why it can be no text of MQTT; nil if it can.
    private var objection: String? {
        if utf8.count > 65_535 { return "it has \(utf8.count) bytes, and 65,535 are the most" }
        return utf8.contains(0) ? "it has the character U+0000" : nil
    }

    fileprivate var faultOfText: String { objection ?? "it is not UTF-8" }

    fileprivate var faultOfTopic: String {
        if isEmpty { return "it is empty" }
        return objection ?? "the wildcards + and # belong to filters, for subscribers"
    }

    fileprivate var faultOfFilter: String {
        if isEmpty { return "it is empty" }
        if let objection { return objection }
        if hasPrefix("$share/") { return "a shared subscription is $share/GROUP/FILTER, the group without wildcards" }
        return "a wildcard is a level of its own, + anywhere and # as the last: home/+/lamp, home/#"
    }
}
