import BrokerModel
import Cluster
import NATSClient
import ServerLoops

/// What stands in the log.
extension LogLane {
    func received(_ record: StreamRecord, _ partition: LogPartition) {
        let sequence = record.mark.sequence
        var bytes: [UInt8] = []
        var isOwn = false
        var said: (heirOf: [NodeID], by: NodeID)?
        if let bundle = Bundle(record.payload) {
            isOwn = incarnations.contains(bundle.origin.node)
            let dealing = bundle.dealing
            let counts = partition.order.counts(bundle, at: sequence, gone: dealing.gone)
            if counts { bytes = Array(record.payload) }
            if let through = dealing.through { dealt[bundle.origin.node, default: [:]][partition.index] = through }
            if counts, dealing.gone.contains(incarnations.current), !isOver {
                isOver = true
                let isTwin = bundle.origin.node.store == incarnations.current.store
                log(
                    .warning,
                    "node \(shownName(bundle.origin.node)) has written into the log that this node (\(incarnations.current)) is gone"
                        + (isTwin ? ": it has a copy of this node's store, and each node needs one of its own." : "."))
            }
            if counts, partition.index == 0 { said = (dealing.heirOf, bundle.origin.node) }
        } else {
            counters.illegible += 1
        }
        // Also what was read before: an earlier incarnation of this node may have been killed before it did anything
        // about it.
        defer { if let said { for gone in said.heirOf { whenInherited(gone, said.by) } } }
        guard let place = partition.place, sequence > place.sequence else { return }
        partition.place?.sequence = sequence
        counters.records += 1
        let given = LogRecord(
            partition: partition.index, sequence: sequence, storedAt: record.mark.storedAt / 1_000_000, isOwn: isOwn, bytes: bytes)
        for other in loop.loops {
            givenBytes += given.cost
            other.post(.record(given), from: loop)
        }
        settleReaders()
        if givenBytes > Limits.logGivenBytesMax { for partition in partitions { partition.stream?.hold() } }
    }

    /// Which records of a partition count from one on that was read.
    func order(of partition: Int, from sequence: UInt64) -> LogOrder {
        LogOrder(from: sequence, knowing: partitions[partition].order)
    }

    /// By partition: the last record that was read; 0 for none.
    var readThrough: [UInt64] { partitions.map { $0.place?.sequence ?? 0 } }

    /// Up to where a node has said that it is done with what share groups have dealt it; nil if it has not.
    func dealtThrough(by node: NodeID, _ partition: Int) -> UInt64? { dealt[node]?[partition] }

    /// The others are gone, and somebody deals for them.
    func forgetDealt(except nodes: Set<NodeID>) { dealt = dealt.filter { nodes.contains($0.key) } }

    /// A shard has worked off records of so many bytes.
    func taken(_ byteCount: Int) {
        givenBytes -= byteCount
        guard givenBytes <= Limits.logGivenBytesMax / 2 else { return }
        for partition in partitions where partition.stream?.isHeld == true { partition.stream?.resume(now: now) }
    }

    func countIllegible(_ count: Int) { counters.illegible += UInt64(count) }

    func heard(_ news: FollowedStream.News, _ partition: LogPartition) {
        switch news {
        case .found(let first, let last): found(first, last, partition)
        case .caughtUp: for other in loop.loops { other.post(.logIsCurrent(partition.index), from: loop) }
        case .failed(let reason): partition.trouble = reason
        }
    }

    func found(_ first: UInt64, _ last: UInt64, _ partition: LogPartition) {
        (partition.isFound, partition.trouble) = (true, nil)
        let name = "the log's partition \(partition.index)"
        let stream = Self.identity(partition.stream?.created ?? "")
        let start = first > 0 ? first - 1 : 0
        if let place = partition.place, place.stream == stream {
            if last < max(place.sequence, partition.furthest) { cut(partition, name, at: last) }
            if start > place.sequence {
                let count = start - place.sequence
                counters.lost += count
                _ = partition.recordGone(through: start)
                log(
                    .error,
                    "\(count) records of \(name) were deleted before this node had read them (\(place.sequence + 1) to \(start)): "
                        + "their messages are missing from its sessions.")
                partition.place?.sequence = start
            }
            for shard in partition.newcomers.sorted() { begin(partition, on: shard, after: place) }
        } else {
            let isOther = partition.place != nil
            let place = LogPlaces.Place(sequence: isOther ? start : last, stream: stream)
            if isOther {
                log(
                    .error, "the stream of \(name) is not the one that this node has read before: it is read from its first record."
                )
                partition.order = LogOrder()
                partition.forgetGone(behind: 0)
                partition.stream?.restart(from: start + 1, now: now)
            }
            partition.place = place
            for shard in loop.loops.indices { begin(partition, on: shard, after: place) }
        }
        (partition.newcomers, partition.furthest) = ([], 0)
    }

    /// The servers have lost what they stored last. What they store now has its numbers: it is not to be taken for that.
    private func cut(_ partition: LogPartition, _ name: String, at last: UInt64) {
        guard let place = partition.place else { return }
        log(
            .error,
            "the servers have lost the newest records of \(name) (\(last + 1) to \(max(place.sequence, partition.furthest))), which this "
                + "node has read: what was acknowledged last may be gone, as after a power cut of servers that do not sync always.")
        for node in dealt.keys {
            if let through = dealt[node]?[partition.index] { dealt[node]?[partition.index] = min(through, last) }
        }
        for index in readers.indices {
            readers[index].ends[partition.index] = readers[index].ends[partition.index].map { min($0, last) }
        }
        partition.forgetGone(behind: last)
        whenCut(partition.index, last)
        for other in loop.loops { other.post(.logIsCut(partition.index, at: last), from: loop) }
        guard last < place.sequence else { return }
        partition.place?.sequence = last
        partition.stream?.restart(from: LogPartition.start(behind: last), now: now)
        settleReaders()
    }

    func begin(_ partition: LogPartition, on shard: Int, after place: LogPlaces.Place) {
        loop.loops[shard].post(.logBegins(partition.index, place), from: loop)
    }

    /// Stands for the time at which a stream was made; never 0.
    private static func identity(_ created: String) -> UInt64 {
        max(1, created.utf8.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 })
    }
}
