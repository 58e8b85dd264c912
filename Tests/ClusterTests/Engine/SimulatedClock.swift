import Bytes

/// Time that passes from one event to the next, in microseconds; events of one moment happen in the order in which they
/// were planned.
final class SimulatedClock {
    private struct Event {
        let at: UInt64
        let number: UInt64
        let action: () -> Void

        func precedes(_ other: Event) -> Bool { at == other.at ? number < other.number : at < other.at }
    }

    private(set) var now: UInt64 = 1_000_000
    var random: SeededGenerator
    private var heap: [Event] = []
    private var lastNumber: UInt64 = 0
    private(set) var eventCount = 0

    init(seed: UInt64) { random = SeededGenerator(seed: seed) }

    var milliseconds: UInt64 { now / 1000 }

    func after(_ microseconds: UInt64, _ action: @escaping () -> Void) { at(now + microseconds, action) }

    func at(_ time: UInt64, _ action: @escaping () -> Void) {
        lastNumber += 1
        heap.append(Event(at: max(time, now), number: lastNumber, action: action))
        var index = heap.count - 1
        while index > 0, heap[index].precedes(heap[(index - 1) / 2]) {
            heap.swapAt(index, (index - 1) / 2)
            index = (index - 1) / 2
        }
    }

    /// Lets so much time pass.
    func run(for microseconds: UInt64) {
        let end = now + microseconds
        while let next = heap.first, next.at <= end {
            take()
            now = next.at
            eventCount += 1
            next.action()
        }
        now = end
    }

    private func take() {
        let last = heap.removeLast()
        guard !heap.isEmpty else { return }
        heap[0] = last
        var index = 0
        while true {
            var least = index
            for child in [2 * index + 1, 2 * index + 2] where child < heap.count && heap[child].precedes(heap[least]) {
                least = child
            }
            guard least != index else { return }
            heap.swapAt(index, least)
            index = least
        }
    }

    /// A delay: mostly as on one machine, now and then a hundred times that.
    func delay(_ range: ClosedRange<UInt64>, rareFactor: UInt64 = 100) -> UInt64 {
        let usual = UInt64.random(in: range, using: &random)
        return random.oneIn(40) ? usual * UInt64.random(in: 1...rareFactor, using: &random) : usual
    }
}

/// Keeps the order of what takes different times.
struct FIFO {
    private var lastArrival: UInt64 = 0

    mutating func arrival(_ clock: SimulatedClock, after delay: UInt64) -> UInt64 {
        lastArrival = max(lastArrival, clock.now + delay)
        return lastArrival
    }
}
