/// Values of a sequence on their way to a property, for as long as this value and the property's object live.
///
/// ```swift
/// @MainActor @Observable final class Panel {
///     var degrees = 0.0
///     @ObservationIgnored var bindings: [PropertyBinding] = []
/// }
/// let panel = Panel()
/// let degrees = client.messages(Home.temperature.matching(.kitchen, 1)).map(\.payload)
/// panel.bindings = [degrees.bind(to: panel, \.degrees)]
/// ```
/// The target is held weakly. A binding that its target holds ends with it at once; one that somebody else holds ends
/// with itself, or when a value comes and the target is gone. With the binding its sequence ends: a subscription is
/// given up when nobody else has it.
@MainActor
public final class PropertyBinding {
    private var task: Task<Void, Never>?

    fileprivate init() {}

    deinit { task?.cancel() }

    /// Ends it; the property stays as it is.
    public func cancel() { task?.cancel() }

    /// Whether it has ended: with its sequence, its target, or on request.
    public private(set) var isOver = false

    /// Why the sequence failed, if it did.
    public private(set) var failure: (any Error)?

    fileprivate func begin(_ body: @escaping @MainActor () async throws -> Void) {
        task = Task { @MainActor [weak self] in
            do { try await body() } catch { self?.failure = error }
            self?.isOver = true
        }
    }
}

extension AsyncSequence {
    /// Writes each value into the property of the target, on the main actor.
    ///
    /// Keep what is returned for as long as values are to be written. Of a sequence that may fail, `failure` of the
    /// binding says why it did.
    @MainActor
    public func bind<Target: AnyObject>(
        to target: Target, _ property: ReferenceWritableKeyPath<Target, Element>
    ) -> PropertyBinding {
        let binding = PropertyBinding()
        binding.begin { [weak target] in
            var iterator = makeAsyncIterator()
            while let value = try await iterator.next(isolation: MainActor.shared) {
                guard !Task.isCancelled, let target else { return }
                target[keyPath: property] = value
            }
        }
        return binding
    }
}
