/// What is asked, with the type of its answer: a value, and nothing of how it travels.
///
/// ```swift
/// struct PlaceSearch: Request, Codable {
///     static let topic: TopicName = "map/place/search"
///     typealias Response = [Place]
///     var region: String
///     var keyword: String
/// }
/// let places = try await client.send(PlaceSearch(region: "Beijing", keyword: "noodles"))
/// ```
/// With MartletClientJSON all three codings are JSON where the types are `Codable`; else they have to be given.
public protocol Request: Sendable {
    /// What the answer says.
    associatedtype Response: Sendable
    /// What the responder may answer instead; none if it says nothing else.
    associatedtype Failure: Error = Never

    /// Where it is asked when no call is given. By default `requests/` and the type's name.
    static var topic: TopicName { get }

    /// How requests become payloads, and back.
    static var coding: MessageCoding<Self> { get }
    /// How responses become payloads, and back.
    static var responseCoding: MessageCoding<Response> { get }
    /// How failures become payloads, and back; nothing has to be said where `Failure` is `Never`.
    static var failureCoding: MessageCoding<Failure> { get }
}

extension Request {
    /// `requests/` and the type's name.
    public static var topic: TopicName { TopicName("requests/\(Self.self)") ?? "requests" }
}

extension Request where Failure == Never {
    /// Of no values: there are no failures.
    public static var failureCoding: MessageCoding<Never> { MessageCoding(NoPayload()) }
}

/// Of a type that has no values.
private struct NoPayload: PayloadCoding {
    var contentType: EncodedString? { nil }

    func encode(_ value: Never) -> Payload {}
    func decode(_ payload: Payload) throws -> Never { throw NotAValue(description: "the request has no failures") }
}
