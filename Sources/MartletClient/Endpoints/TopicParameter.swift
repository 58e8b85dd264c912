/// A value that stands as a level of topics: a string, a whole number, an enumeration or another type with raw values
/// of these.
///
/// ```swift
/// enum Room: String, TopicParameter { case kitchen, cellar }
/// ```
public protocol TopicParameter: Hashable, Sendable {
    /// The text of the level. One that is empty, or has a slash, a plus or a number sign in it, makes no topic: an
    /// error where it is used.
    var topicLevel: String { get }

    /// The value that a level stands for; nil if it stands for none.
    init?(topicLevel: String)
}

/// The rest of a topic, as the last parameter of an endpoint: any number of levels, also none. All of them are the
/// filter's `#`.
///
/// ```swift
/// enum Share {
///     static let file = Endpoint(Payload.self, coding: .bytes) {
///         "files"; Parameter("owner", String.self); Parameter("path", TopicTail.self)
///     }
/// }
/// try await client.publish([1, 2, 3], to: Share.file("anna", "photos/2026/1.jpg"))
/// for try await file in client.messages(Share.file.matching("anna", nil)) { print(file.parameters.1.levels) }
/// ```
/// Elsewhere than last it makes no topic.
public struct TopicTail: TopicParameter, ExpressibleByStringLiteral, CustomStringConvertible {
    /// The levels, the first first; `[]` where the topic ends before.
    public var levels: [String]

    /// A tail of these levels, the first first.
    public init(_ levels: [String] = []) { self.levels = levels }

    /// A text that is taken apart at its slashes: `"photos/2026"`.
    public init(stringLiteral text: String) { self.init(text) }

    /// Takes a text apart at its slashes; the empty one has no levels.
    public init(_ text: String) {
        levels = []
        if text.isEmpty { return }
        let parts = text.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        levels = parts.map { String(decoding: $0, as: UTF8.self) }
    }

    /// The value that the text of the topic stands for; nil if there is none.
    public init?(topicLevel: String) { self.init(topicLevel) }

    /// The levels with slashes between them.
    public var topicLevel: String { levels.joined(separator: "/") }

    /// The levels with slashes between them.
    public var description: String { topicLevel }
}

extension TopicParameter where Self: LosslessStringConvertible {
    /// The value's own description.
    public var topicLevel: String { description }

    /// The value that describes itself so; nil if there is none.
    public init?(topicLevel: String) { self.init(topicLevel) }
}

extension TopicParameter where Self: RawRepresentable, RawValue: LosslessStringConvertible {
    /// The description of the raw value.
    public var topicLevel: String { rawValue.description }

    /// The value whose raw value describes itself so; nil if there is none.
    public init?(topicLevel: String) {
        guard let rawValue = RawValue(topicLevel) else { return nil }
        self.init(rawValue: rawValue)
    }
}

extension String: TopicParameter {}
extension Bool: TopicParameter {}
extension Int: TopicParameter {}
extension Int8: TopicParameter {}
extension Int16: TopicParameter {}
extension Int32: TopicParameter {}
extension Int64: TopicParameter {}
extension UInt: TopicParameter {}
extension UInt8: TopicParameter {}
extension UInt16: TopicParameter {}
extension UInt32: TopicParameter {}
extension UInt64: TopicParameter {}

/// A level of an endpoint's topics that each use of the endpoint gives.
public struct Parameter<Value: TopicParameter>: Sendable {
    let name: String

    /// - `name`: what the level is called where endpoints are listed and in errors.
    public init(_ name: String, _ type: Value.Type = Value.self) { self.name = name }
}

/// Builds the topics of an endpoint of texts and parameters, level by level. A text may hold several levels:
/// `"home/garden"`.
@resultBuilder
public enum TopicBuilder {
    /// A text: one level, or several with slashes between them.
    public static func buildExpression(_ text: String) -> String { text }

    /// A parameter: one level that differs.
    public static func buildExpression<Value>(_ parameter: Parameter<Value>) -> Parameter<Value> { parameter }

    /// A topic that begins with a text.
    public static func buildPartialBlock(first text: String) -> TopicPattern<> { TopicPattern(TopicTemplate().adding(text: text)) }

    /// A topic that begins with a parameter.
    public static func buildPartialBlock<Value>(first parameter: Parameter<Value>) -> TopicPattern<Value> {
        TopicPattern(TopicTemplate().adding(parameter: parameter.name, Value.self))
    }

    /// A topic that goes on with a text.
    public static func buildPartialBlock<each Part>(
        accumulated: TopicPattern<repeat each Part>, next text: String
    ) -> TopicPattern<repeat each Part> {
        TopicPattern(accumulated.template.adding(text: text))
    }

    /// A topic that goes on with a parameter.
    public static func buildPartialBlock<each Part, Value>(
        accumulated: TopicPattern<repeat each Part>, next parameter: Parameter<Value>
    ) -> TopicPattern<repeat each Part, Value> {
        TopicPattern(accumulated.template.adding(parameter: parameter.name, Value.self))
    }
}

/// Topics that differ in the values of their parameters.
public struct TopicPattern<each Part: TopicParameter>: Sendable {
    let template: TopicTemplate

    init(_ template: TopicTemplate) { self.template = template }

    /// The topic with these values. Throws `ClientError.topic`.
    func topic(_ parameters: repeat each Part) throws(ClientError) -> TopicName {
        var writer = TopicWriter(template)
        repeat writer.add((each parameters).topicLevel)
        return try writer.topic()
    }

    /// The filter of all topics with these values, where nil stands for any. Throws `ClientError.topic`.
    func filter(_ parameters: repeat (each Part)?) throws(ClientError) -> TopicFilter {
        var writer = TopicWriter(template)
        repeat writer.add((each parameters)?.topicLevel)
        return try writer.filter()
    }

    /// The values in a topic. Throws `ClientError.undecodable` if it is none of these topics.
    func parameters(of topic: TopicName) throws(ClientError) -> (repeat each Part) {
        var reader = TopicReader(template, topic)
        let parameters = (repeat try reader.next((each Part).self))
        try reader.finish()
        return parameters
    }
}
