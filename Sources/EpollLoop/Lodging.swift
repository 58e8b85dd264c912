/// Whether a loop is run by its own thread or lodges with another loop, whose thread runs its turns between its own.
///
/// ```
///             ask               take in
///    home ──────────► asked ──────────────► away
///     ▲ ▲               │                     │
///     │ └───────────────┘ (the host is late)  │
///     └───────────────────────────────────────┘ send home
/// ```
/// The loop's own thread asks, and waits until it is home again. Home and away: one thread runs the turns, and no other touches the loop;
/// asked: nobody does. Each asking has a number, so that a host that comes late does not take in a loop that has asked another one since.
final class Lodging: Sendable {
    private enum Place {
        case home
        case asked
        case away
    }

    private let monitor = Monitor()
    // Touched inside the monitor only.
    nonisolated(unsafe) private var place = Place.home
    nonisolated(unsafe) private var number: UInt64 = 0
    private let patienceMilliseconds: Int

    /// - Parameter patienceMilliseconds: so long the loop waits for its host.
    init(patienceMilliseconds: Int) { self.patienceMilliseconds = patienceMilliseconds }

    /// For the loop's own thread, before it tells the host. Returns the number of this asking.
    func ask() -> UInt64 {
        monitor.withLock {
            number += 1
            place = .asked
            return number
        }
    }

    /// For the loop's own thread, once the host has been told: waits until the loop is home. Returns whether it was away.
    func waitUntilHome() -> Bool {
        monitor.withLock {
            if place == .asked { monitor.wait(milliseconds: patienceMilliseconds) }
            guard place != .asked else {
                place = .home
                return false
            }
            while place == .away { monitor.wait() }
            return true
        }
    }

    /// For the host; false if the loop no longer asks that.
    func takeIn(_ number: UInt64) -> Bool {
        monitor.withLock {
            guard place == .asked, self.number == number else { return false }
            place = .away
            return true
        }
    }

    /// For the host: it touches the loop no more.
    func sendHome() {
        monitor.withLock {
            place = .home
            monitor.signal()
        }
    }
}
