/// The endpoints and calls of a service, in one place.
///
/// ```swift
/// enum Home: EndpointCatalogue {
///     static let temperature = Endpoint(Double.self, coding: .text, sample: 21.5) { "home"; Parameter("room", Room.self) }
///     static var all: [any EndpointDeclaration] { [temperature] }
/// }
/// @Test func `the catalogue is sound`() throws { try Home.check() }
/// ```
public protocol EndpointCatalogue {
    /// All of them; what stands not here is neither checked nor stubbed.
    static var all: [any EndpointDeclaration] { get }
}

extension EndpointCatalogue {
    /// Checks the declarations, for a test: each makes legal topics that are short enough, no two match one topic,
    /// parameters of one endpoint differ in their names, and each sample survives its coding. Throws all that is wrong.
    public static func check() throws(CatalogueFaults) {
        let declarations = all.map(\.declaration)
        var faults: [String] = []
        for (index, declaration) in declarations.enumerated() {
            faults += declaration.faults()
            for other in declarations[..<index] where other.template.overlaps(declaration.template) {
                faults.append("“\(other.topic)” and “\(declaration.topic)” match the same topics")
            }
        }
        if !faults.isEmpty { throw CatalogueFaults(faults: faults) }
    }
}

/// The faults of a catalogue: a sentence each.
public struct CatalogueFaults: Error, Hashable, Sendable, CustomStringConvertible {
    /// The faults, a sentence each.
    public let faults: [String]

    package init(faults: [String]) { self.faults = faults }

    /// All sentences, with semicolons between them.
    public var description: String { faults.joined(separator: "; ") }
}

/// An endpoint or a call, whatever its types.
public protocol EndpointDeclaration: Sendable {
    /// What it says of itself.
    var declaration: EndpointDescription { get }
}

/// What an endpoint or a call says of itself.
public struct EndpointDescription: Sendable {
    /// The topic, with the names of parameters in braces: home/{room}/temperature.
    public var topic: String { template.description }
    /// The name of the type of its values, or of its requests.
    public let type: String
    /// Whether values are published there or requests answered.
    public let kind: Kind
    /// The Content Type of its payloads, or of its requests; nil if messages say none.
    public let contentType: EncodedString?
    package let template: TopicTemplate
    /// The message with the sample; nil without one. The topic is any.
    let sampleMessage: @Sendable (TopicName) throws(ClientError) -> Publication?
    /// Throws if the sample is not what it was after writing and reading it.
    let checkSample: @Sendable () throws -> Void

    /// What a topic is for.
    public enum Kind: Hashable, Sendable {
        /// Values are published, at this QoS, and the last is retained or not.
        case endpoint(qos: QoS, retain: Bool)
        /// Requests are answered.
        case call
    }

    /// The faults of this endpoint, without a look at others.
    func faults() -> [String] {
        var faults = template.faults
        do { try checkSample() } catch { faults.append("the sample of “\(topic)”: \(error)") }
        return faults
    }
}

extension Endpoint: EndpointDeclaration {
    /// What it says of itself.
    public var declaration: EndpointDescription {
        EndpointDescription(
            type: "\(Value.self)", kind: .endpoint(qos: qos, retain: retain),
            contentType: coding.statesContentType ? coding.main.contentType : nil, template: pattern.template
        ) { (topic) throws(ClientError) in
            guard let sample else { return nil }
            return try EndpointTopic(result: .success(topic), coding: coding, qos: qos, retain: retain).publication(sample)
        } checkSample: {
            if let sample { try check(sample, coding) }
        }
    }
}

extension Call: EndpointDeclaration {
    /// What it says of itself.
    public var declaration: EndpointDescription {
        EndpointDescription(
            type: "\(Asked.self)", kind: .call, contentType: Asked.coding.main.contentType, template: pattern.template
        ) {
            (topic) throws(ClientError) in
            guard let sample else { return nil }
            var publication = Publication(topic, Payload(), qos: .atLeastOnce, retain: false)
            try Asked.responseCoding.encode(sample, into: &publication)
            return publication
        } checkSample: {
            if let sample { try check(sample, Asked.responseCoding) }
        }
    }
}

/// Whether a value is the same after it was written and read: equal, or of equal bytes where it cannot be compared.
private func check<Value>(_ value: Value, _ coding: MessageCoding<Value>) throws {
    let payload = try coding.encode(value)
    let again = try coding.decode(payload, contentType: coding.main.contentType)
    let isSame = areEqual(value, again)
    let isSameBytes = try isSame ?? (coding.encode(again) == payload)
    if !isSameBytes { throw NotAValue(description: "\(value) is read back as \(again)") }
}

/// Nil where the type has no equality.
private func areEqual(_ left: some Any, _ right: some Any) -> Bool? {
    func isEqual<Value: Equatable>(_ left: Value) -> Bool? { (right as? Value).map { $0 == left } }
    return (left as? any Equatable).flatMap { isEqual($0) }
}

/// Topics at which requests of one type are answered.
///
/// ```swift
/// enum Home {
///     static let setTarget = Call(SetTarget.self) { "home"; Parameter("room", Room.self); "target" }
/// }
/// let answer = try await client.send(SetTarget(celsius: 30), to: Home.setTarget(.kitchen), timeout: .seconds(2))
/// ```
public struct Call<Asked: Request, each Part: TopicParameter>: Sendable {
    let pattern: TopicPattern<repeat each Part>
    private let givenSample: @Sendable () -> Asked.Response?

    /// - `sample`: an example of an answer for stubs and checks; without one, that of the `Sampled` request.
    /// - `topic`: the levels of the topics.
    public init(
        _ type: Asked.Type = Asked.self, sample: @autoclosure @escaping @Sendable () -> Asked.Response? = nil,
        @TopicBuilder topic: () -> TopicPattern<repeat each Part>
    ) {
        (pattern, givenSample) = (topic(), sample)
    }

    /// The topic with these parameters. A value that makes no legal level is an error where the topic is used.
    public func callAsFunction(_ parameters: repeat each Part) -> CallTopic<Asked> {
        CallTopic(result: Result { () throws(ClientError) in try pattern.topic(repeat each parameters) })
    }

    /// An example of an answer, if one was given.
    public var sample: Asked.Response? { givenSample() ?? sampled(by: Asked.self, as: Asked.Response.self) }

    /// The parameters in a topic: a tuple, or the value itself if there is one parameter. Throws
    /// `ClientError.undecodable` if it is none of these.
    public func parameters(of topic: TopicName) throws(ClientError) -> (repeat each Part) { try pattern.parameters(of: topic) }
}

/// One topic at which requests of a type are answered.
public struct CallTopic<Asked: Request>: Sendable {
    let result: Result<TopicName, ClientError>

    /// Any topic, without a call that declares it.
    public init(_ topic: TopicName = Asked.topic) { result = .success(topic) }

    init(result: Result<TopicName, ClientError>) { self.result = result }

    /// Throws `ClientError.topic` where a parameter makes no legal level.
    public var name: TopicName { get throws(ClientError) { try result.get() } }
}
