import EpollLoop

/// A handler that does what a test says, and counts.
final class ClosureHandler: EventHandler {
    private(set) var events: [ReadyEvents] = []
    private let body: (ReadyEvents) -> Void

    init(_ body: @escaping (ReadyEvents) -> Void = { _ in }) {
        self.body = body
    }

    func ready(_ events: ReadyEvents) {
        self.events.append(events)
        body(events)
    }
}
