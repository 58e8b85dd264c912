/// A type with an example: of its own values, and of a request with an example of its response. The extension may stand
/// in the tests.
///
/// ```swift
/// extension PlaceSearch: Sampled {
///     static var sample: [Place] { [Place(title: "Noodle bar")] }
/// }
/// ```
public protocol Sampled {
    /// The type of the sample: the value's own, or a request's `Response`.
    associatedtype Sample: Sendable

    /// An example, the same each time.
    static var sample: Sample { get }
}

/// The example that a type has, if it has one.
func sampled<Sample>(by type: Any.Type, as wanted: Sample.Type) -> Sample? {
    func sample<Type: Sampled>(_ type: Type.Type) -> Sample? { type.sample as? Sample }
    return (type as? any Sampled.Type).flatMap { sample($0) }
}

/// The example that a type has of itself, if it has one.
func sampled<Value>(_ type: Value.Type) -> Value? { sampled(by: type, as: type) }
