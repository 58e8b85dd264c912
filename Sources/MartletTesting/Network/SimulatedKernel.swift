internal import BrokerSimulation
internal import EpollLoop
internal import Glibc
internal import Platform
internal import SeededRandom

/// The descriptors of a simulated machine. All on the simulation's thread, hence unchecked.
final class SimulatedKernel: @unchecked Sendable {
    let time: SimulatedTime
    private var open: [Int32: CableEnd] = [:]
    /// Numbers that no descriptor of the process has.
    private var lastDescriptor: Int32 = 1_000_000

    init(time: SimulatedTime) { self.time = time }

    func add(_ end: CableEnd) -> Int32 {
        lastDescriptor += 1
        open[lastDescriptor] = end
        return lastDescriptor
    }

    func close(_ descriptor: Int32) { open[descriptor] = nil }

    func closeAll() { open = [:] }

    func readiness(of descriptor: Int32) -> ReadyEvents { open[descriptor]?.readiness ?? [] }
}

/// The kernel as one simulated loop sees it. A wait never sleeps: whoever runs the loop does so when `isReady`. On the simulation's thread,
/// hence unchecked.
final class SimulatedPoller: Poller, @unchecked Sendable {
    private struct Watch {
        let descriptor: Int32
        var interest: Interest
        let data: UInt64
    }

    private let kernel: SimulatedKernel
    private var watches: [Watch] = []
    private var random: SeededGenerator
    /// Runs on, so that nobody waits awake for a clock that stands.
    private var microseconds: UInt64 = 0

    init(_ kernel: SimulatedKernel, seed: UInt64) {
        self.kernel = kernel
        random = SeededGenerator(seed: seed)
    }

    /// Whether a wait would end.
    var isReady: Bool { watches.contains { !events(of: $0).isEmpty } }

    func add(_ descriptor: FileDescriptor, interest: Interest, data: UInt64) {
        watches.append(Watch(descriptor: descriptor.rawValue, interest: interest, data: data))
    }

    func modify(_ descriptor: FileDescriptor, interest: Interest, data: UInt64) {
        guard let place = watches.firstIndex(where: { $0.data == data }) else { return }
        watches[place].interest = interest
    }

    func remove(_ descriptor: FileDescriptor) { watches.removeAll { $0.descriptor == descriptor.rawValue } }

    func wait(into events: UnsafeMutableBufferPointer<ReadyRecord>, timeoutMilliseconds: Int32) -> Int {
        var count = 0
        for watch in watches.shuffled(using: &random) where count < events.count {
            let ready = self.events(of: watch)
            if ready.isEmpty { continue }
            events[count] = ReadyRecord(ready, data: watch.data)
            count += 1
        }
        return count
    }

    func wake() {}

    func pause(microseconds: UInt32) {}

    var nowMilliseconds: UInt64 { kernel.time.now }

    var nowMicroseconds: UInt64 {
        microseconds += 1
        return kernel.time.now * 1000 + microseconds
    }

    private func events(of watch: Watch) -> ReadyEvents {
        // Asked for very often, hence the bits.
        let wanted = watch.interest.rawValue | ReadyEvents.error.rawValue | ReadyEvents.hangUp.rawValue
        return ReadyEvents(rawValue: kernel.readiness(of: watch.descriptor).rawValue & wanted)
    }
}
