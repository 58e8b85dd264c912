import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// What is saved of sessions, and what share groups are dispatched.
extension MovingCluster {
    /// The cluster stores what a node gives, if that keeps the session.
    func save(_ saved: SavedSession, from node: Int) {
        guard !lost.contains(node) else { return }
        savedCount += 1
        guard storesSaves else { return unstored.append((node, saved)) }
        store(saved, from: node)
    }

    func store(_ saved: SavedSession, from node: Int) {
        guard sessions[saved.identifier]?.epoch == saved.epoch else { return }
        if saved.state != nil { (wills[saved.identifier], awaySince[saved.identifier]) = (saved.will, saved.awaySince) }
        let earlier = self.saved[saved.identifier]
        let state = saved.state ?? earlier?.state ?? []
        let places = saved.places ?? earlier?.places
        self.saved[saved.identifier] = state.isEmpty ? nil : places.map { (saved.epoch, state, $0) }
        core(node, saved.identifier).received(.sessionSaved(saved.identifier, number: saved.number))
    }

    /// Stores what was held back.
    func storeSaves() {
        storesSaves = true
        let all = unstored
        unstored = []
        for (node, saved) in all where !lost.contains(node) { store(saved, from: node) }
        run()
    }

    /// Each node's sessions give how far they have got.
    func saveLogPositions() {
        for node in nodes.indices where !lost.contains(node) {
            for core in nodes[node].cores { core.received(.saveLogPositions) }
            nodes[node].settle()
            let all = nodes[node].cores.map { $0.dispatched(partition) }
            told[node][runs[node]] = max(told[node][runs[node]], earlier[node])
            earlier[node] = min(all.map(\.through).min() ?? 0, all.map(\.last).max() ?? 0)
        }
        run()
    }

    /// A node is gone for good, with its disk.
    ///
    /// - Parameters:
    ///   - logsSome: whether what it had published reaches the log, of which it hears nothing.
    ///   - successor: who dispatches for it, when its lease has ended; nil if it has not yet.
    func lose(_ node: Int, logsSome: Bool = false, successor: Int? = nil) {
        cut(node, logsSome: logsSome)
        for client in clients(of: node) { client.connectionIsGone() }
        for identifier in sessions.keys { sessions[identifier]?.owners.remove(node) }
        if let successor { inherit(node, by: successor) }
    }

    /// The lease of a node that is lost has ended, or those of its runs before the present one: the others know, and
    /// one of them dispatches what these were not done with.
    ///
    /// - Parameter runs: whether that reaches the log at once.
    func inherit(_ node: Int, by successor: Int, runs goesOn: Bool = true) {
        read(successor)
        let ended = firstRun[node]..<(lost.contains(node) ? runs[node] + 1 : runs[node])
        for run in ended { logGone(node, run: run) }
        for run in ended where successors[number(of: node, run: run)] == nil {
            // What this one dispatched for others goes with its own part.
            let gone = number(of: node, run: run)
            let all = [gone] + successors.keys.filter { dispatcher(for: $0) == gone }.sorted()
            successors[gone] = number(of: successor)
            for run in all { inherit(run, by: successor) }
        }
        firstRun[node] = ended.upperBound
        if !lost.contains(node) { for core in nodes[node].cores { core.received(.endEarlierDispatches) } }
        nodes[successor].settle()
        if goesOn { run() }
    }

    /// Whose the part of a run is.
    func dispatcher(for run: UInt64) -> UInt64 {
        var last = run
        while let successor = successors[last], successor != last { last = successor }
        return last
    }

    func inherit(_ gone: UInt64, by successor: Int) {
        begun[gone] = number(of: successor)
        let done = told[Int(gone >> 32) - 1][Int(gone & 0xffff_ffff) - 1]
        let span = Int(done)..<records.count
        for core in nodes[successor].cores {
            core.received(.dispatchesFor(gone, after: [done]))
            for record in records[span] { core.reread(record, for: .learnDispatched(by: gone)) }
            for record in records[span] { #expect(core.reread(record, for: .dispatchAgain(for: gone)) == 0) }
            core.received(.forgetDispatched(by: gone))
        }
    }

    /// Nodes that were killed and have read all of the log settle what they had been dispatched before.
    func settleAllEarlierDispatches() {
        for node in readers.sorted() {
            let cores = nodes[node].cores
            let earlierDispatchesByLoop = cores.compactMap(\.unsettledEarlierDispatches)
            guard !earlierDispatchesByLoop.isEmpty,
                cores.allSatisfy({ ($0.logPositions[partition]?.sequence ?? 0) == UInt64(records.count) })
            else {
                continue
            }
            let parts = earlierDispatchesByLoop.dropFirst().reduce(earlierDispatchesByLoop[0]) { $0.union($1) }.parts
            for part in parts where successors[part.incarnation] == nil { successors[part.incarnation] = number(of: node) }
            let won = parts.filter {
                dispatcher(for: $0.incarnation) == number(of: node) && begun[$0.incarnation] != number(of: node)
            }
            let span = Int(parts.map { $0.done[partition] }.min() ?? 0)..<records.count
            for core in cores {
                for part in parts { core.received(.successor(of: part.incarnation, successors[part.incarnation] ?? 0)) }
                for part in won { core.received(.dispatchesFor(part.incarnation, after: part.done)) }
                for record in records[span] { core.reread(record, for: .learnEarlierDispatches) }
                for record in records[span] { core.reread(record, for: .followEarlierDispatches) }
                core.received(.earlierDispatchesAreKnown(won: Set(won.map(\.incarnation))))
            }
            for core in cores {
                for record in records[span] { #expect(core.reread(record, for: .dispatchEarlier) == 0) }
                core.received(.settleEarlierDispatches)
            }
            nodes[node].settle()
        }
    }

    /// A run of a node has ended: the others hear of it.
    func logGone(_ node: Int, run: Int) {
        for other in nodes.indices where dispatches && other != node && !lost.contains(other) {
            for core in nodes[other].cores { core.received(.nodeIsGone(number(of: node, run: run))) }
            nodes[other].settle()
        }
    }

    /// A shard's members of a share group have changed: the others hear of it.
    func tellMembers(of node: Int, _ shard: Int, _ group: ClusterGroup) {
        let name = group.shareName + [0] + group.filter
        memberships[node][name, default: [:]][shard] = group
        for other in nodes.indices where dispatches && other != node && !lost.contains(other) {
            tellMembers(of: node, name, to: other)
        }
    }

    /// How many members of share groups the others know a node to have, by the groups' filters.
    func membersTold(of node: Int) -> [String: Int] {
        var counts: [String: Int] = [:]
        for parts in memberships[node].values {
            for (_, group) in parts {
                counts[String(decoding: group.filter, as: UTF8.self), default: 0] += group.connected + group.away
            }
        }
        return counts
    }

    func tellAllMembers(of node: Int, to other: Int) {
        for name in memberships[node].keys.sorted(by: { $0.lexicographicallyPrecedes($1) }) {
            tellMembers(of: node, name, to: other)
        }
    }

    func tellMembers(of node: Int, _ name: [UInt8], to other: Int) {
        guard let parts = memberships[node][name]?.values, var group = parts.first else { return }
        (group.node, group.number, group.readsLog) = (number(of: node), 1, true)
        (group.connected, group.away) = (parts.map(\.connected).reduce(0, +), parts.map(\.away).reduce(0, +))
        for core in nodes[other].cores { core.received(.group(group)) }
        nodes[other].settle()
    }
}
