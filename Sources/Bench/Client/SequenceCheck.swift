/// Follows the numbers of each publisher's messages on one connection, and so tells what was lost and what came twice.
///
/// A publisher's messages on one topic arrive in order on one connection [MQTT-4.6.0-6 v5], so the number expected next is enough.
struct SequenceCheck: ~Copyable {
    private var expected: UnsafeMutablePointer<UInt32>?
    private let count: Int

    /// - Parameter publisherCount: how many publishers there are; 0 to check nothing.
    init(publisherCount: Int) {
        count = publisherCount
        guard publisherCount > 0 else { return }
        expected = .allocate(capacity: publisherCount)
        expected?.initialize(repeating: 0, count: publisherCount)
    }

    deinit { expected?.deallocate() }

    /// Takes note of a message's number.
    @inline(__always)
    func note(publisher: UInt32, number: UInt32, in tally: LoadTally) {
        guard let expected, Int(publisher) < count else { return }
        let next = expected[Int(publisher)]
        expected[Int(publisher)] = number &+ 1
        if number == next { return }
        Self.countJump(from: next, to: number, tally)
        if number < next { expected[Int(publisher)] = next }
    }

    @inline(never)
    private static func countJump(from next: UInt32, to number: UInt32, _ tally: LoadTally) {
        if number > next {
            tally.skipped &+= UInt64(number &- next)
        } else {
            tally.duplicates &+= 1
        }
    }
}
