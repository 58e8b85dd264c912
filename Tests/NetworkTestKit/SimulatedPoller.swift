internal import Glibc
package import Platform
internal import TestBasics
internal import Testing

/// The kernel that one simulated loop sees. A wait never sleeps: whoever runs the loop does so when `isReady`.
package final class SimulatedPoller: Poller, @unchecked Sendable {
    private struct Watch {
        var descriptor: Int32
        var interest: Interest
        let data: UInt64
    }

    private let network: MemoryNetwork
    private var watches: [Watch] = []
    private var random: SeededGenerator
    /// How many of the next registrations the kernel refuses.
    package var refusals = 0
    /// How often the loop has paused because another was too far behind.
    package private(set) var pauses = 0

    package init(network: MemoryNetwork, seed: UInt64) {
        self.network = network
        random = SeededGenerator(seed: seed)
    }

    /// How many descriptors are watched.
    package var watchCount: Int { watches.count }

    /// Whether a wait would end.
    package var isReady: Bool { watches.contains { !events(of: $0).isEmpty } }

    package func add(_ descriptor: FileDescriptor, interest: Interest, data: UInt64) throws(SystemError) {
        guard refusals == 0 else {
            refusals -= 1
            throw SystemError(errno: ENOMEM, operation: "epoll_ctl")
        }
        network.watch(descriptor.rawValue, by: self)
        watches.append(Watch(descriptor: descriptor.rawValue, interest: interest, data: data))
    }

    package func modify(_ descriptor: FileDescriptor, interest: Interest, data: UInt64) {
        guard let place = watches.firstIndex(where: { $0.descriptor == descriptor.rawValue && $0.data == data }) else {
            Issue.record("descriptor \(descriptor.rawValue) is not watched")
            return
        }
        watches[place].interest = interest
    }

    package func remove(_ descriptor: FileDescriptor) {
        network.unwatch(descriptor.rawValue, by: self)
        watches.removeAll { $0.descriptor == descriptor.rawValue }
    }

    /// In an order that the seed decides.
    package func wait(into events: UnsafeMutableBufferPointer<ReadyRecord>, timeoutMilliseconds: Int32) -> Int {
        var count = 0
        for watch in watches.shuffled(using: &random) where count < events.count {
            let ready = self.events(of: watch)
            if ready.isEmpty { continue }
            events[count] = ReadyRecord(ready, data: watch.data)
            count += 1
        }
        return count
    }

    package func wake() {}

    package func pause(microseconds: UInt32) { pauses += 1 }

    package var nowMilliseconds: UInt64 { network.now }

    package var nowMicroseconds: UInt64 { network.now * 1000 }

    private func events(of watch: Watch) -> ReadyEvents {
        network.readiness(of: watch.descriptor)
            .intersection(ReadyEvents(rawValue: watch.interest.rawValue).union([.error, .hangUp]))
    }
}
