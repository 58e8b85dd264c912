/// Which messages of the cluster's log a shard has dealt to members of share groups that are not done with them, by their places.
///
///     read from the log ─► begin ─► DealtMark in a member's queue ─► acknowledged, dropped, dealt to another ─► end
///
/// A mark ends where what it is attached to is let go of; that of a member on another shard comes back by mail.
final class DealtPlaces {
    /// A record of the log.
    struct Place: Equatable, Sendable {
        var partition: Int
        var sequence: UInt64
    }

    private struct Partition {
        /// By rising sequences, from `head` on; each with how many marks there are.
        var open: [(sequence: UInt64, count: Int)] = []
        var head = 0
        /// The last record of which anything was dealt.
        var last: UInt64 = 0
    }

    private var partitions: [Partition]
    /// What other shards are to be told: by shard, the places of marks that have ended here.
    private(set) var returned: [Int: [Place]] = [:]

    init(partitions: Int) { self.partitions = Array(repeating: Partition(), count: partitions) }

    /// The first record that is not done; nil if all are.
    func firstOpen(_ partition: Int) -> UInt64? {
        let one = partitions[partition]
        return one.head < one.open.count ? one.open[one.head].sequence : nil
    }

    func last(_ partition: Int) -> UInt64 { partitions[partition].last }

    /// Something of a record is dealt; records come in the log's order.
    func begin(_ place: Place) {
        let count = partitions[place.partition].open.count
        partitions[place.partition].last = max(partitions[place.partition].last, place.sequence)
        if count > 0, partitions[place.partition].open[count - 1].sequence == place.sequence {
            partitions[place.partition].open[count - 1].count += 1
        } else {
            partitions[place.partition].open.append((place.sequence, 1))
        }
    }

    /// A mark of this shard has ended. O(log open).
    func end(_ place: Place) {
        var (low, high) = (partitions[place.partition].head, partitions[place.partition].open.count)
        while low < high {
            let middle = (low + high) / 2
            if partitions[place.partition].open[middle].sequence < place.sequence { low = middle + 1 } else { high = middle }
        }
        guard low < partitions[place.partition].open.count, partitions[place.partition].open[low].sequence == place.sequence else {
            return
        }
        partitions[place.partition].open[low].count -= 1
        var head = partitions[place.partition].head
        while head < partitions[place.partition].open.count, partitions[place.partition].open[head].count == 0 { head += 1 }
        if head > 1024, head > partitions[place.partition].open.count / 2 {
            partitions[place.partition].open.removeFirst(head)
            head = 0
        }
        partitions[place.partition].head = head
    }

    /// A mark of another shard has ended here.
    func give(back place: Place, to shard: Int) { returned[shard, default: []].append(place) }

    func takeReturned() -> [Int: [Place]] {
        defer { returned = [:] }
        return returned
    }
}

/// Says as long as it lives that a message of the log is dealt to somebody who is not done with it.
final class DealtMark {
    let place: DealtPlaces.Place
    /// The shard that has dealt it; nil for the one that the mark is on.
    let dealer: Int?
    private let places: DealtPlaces
    private var isHandedOver = false

    /// - Parameters:
    ///   - place: of the message.
    ///   - dealer: another shard, which has dealt it; nil for this one.
    ///   - isBegun: whether it counts already, and comes from another shard.
    ///   - places: of this shard.
    init(_ place: DealtPlaces.Place, dealer: Int? = nil, isBegun: Bool = false, _ places: DealtPlaces) {
        (self.place, self.dealer, self.places) = (place, dealer, places)
        if !isBegun { places.begin(place) }
    }

    /// It goes on on another shard.
    func handOver() { isHandedOver = true }

    deinit {
        guard !isHandedOver else { return }
        if let dealer { places.give(back: place, to: dealer) } else { places.end(place) }
    }
}
