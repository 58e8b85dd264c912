/// Somebody who waits until all partitions of the log are read as far as they go now.
struct LogReader {
    let number: UInt64
    /// By partition: where what was written for it stands; nil while nobody knows.
    var ends: [UInt64?]
    let then: () -> Void

    init(number: UInt64, partitions: Range<Int>, then: @escaping () -> Void) {
        (self.number, self.then) = (number, then)
        ends = partitions.map { _ in nil }
    }

    /// - Parameter places: by partition, the last record that was read.
    func hasRead(_ places: [UInt64]) -> Bool {
        zip(ends, places).allSatisfy { end, place in end.map { place >= $0 } ?? false }
    }
}
