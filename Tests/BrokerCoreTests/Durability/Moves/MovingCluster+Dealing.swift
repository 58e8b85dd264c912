import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// What is saved of sessions, and what share groups are dealt.
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
    func savePlaces() {
        for node in nodes.indices where !lost.contains(node) {
            for core in nodes[node].cores { core.received(.savePlaces) }
            nodes[node].settle()
            let all = nodes[node].cores.map { $0.dealt(partition) }
            told[node][runs[node]] = max(told[node][runs[node]], earlier[node])
            earlier[node] = min(all.map(\.through).min() ?? 0, all.map(\.last).max() ?? 0)
        }
        run()
    }

    /// A node is gone for good, with its disk.
    ///
    /// - Parameter logsSome: whether what it had published reaches the log, of which it hears nothing.
    func lose(_ node: Int, logsSome: Bool = false) {
        cut(node, logsSome: logsSome)
        for identifier in sessions.keys { sessions[identifier]?.keepers.remove(node) }
    }

    /// The lease of a node that is lost has ended, or those of its runs before the present one: the others know, and one of them deals what these were
    /// not done with.
    ///
    /// - Parameter runs: whether that reaches the log at once.
    func inherit(_ node: Int, by heir: Int, runs goesOn: Bool = true) {
        read(heir)
        let ended = firstRun[node]..<(lost.contains(node) ? runs[node] + 1 : runs[node])
        for run in ended { logGone(node, run: run) }
        for run in ended where heirs[number(of: node, run: run)] == nil {
            // What this one dealt for others goes with its own part.
            let gone = number(of: node, run: run)
            let all = [gone] + heirs.keys.filter { dealer(for: $0) == gone }.sorted()
            heirs[gone] = number(of: heir)
            for run in all { inherit(run, by: heir) }
        }
        firstRun[node] = ended.upperBound
        if !lost.contains(node) { for core in nodes[node].cores { core.received(.endPast) } }
        nodes[heir].settle()
        if goesOn { run() }
    }

    /// Whose the part of a run is.
    func dealer(for run: UInt64) -> UInt64 {
        var last = run
        while let heir = heirs[last], heir != last { last = heir }
        return last
    }

    func inherit(_ gone: UInt64, by heir: Int) {
        begun[gone] = number(of: heir)
        let done = told[Int(gone >> 32) - 1][Int(gone & 0xffff_ffff) - 1]
        let span = Int(done)..<records.count
        for core in nodes[heir].cores {
            core.received(.dealsFor(gone, after: [done]))
            for sequence in span {
                for said in steps[sequence].steps { core.learnDealt(said.step, by: gone) }
                for before in passedOn(sequence) { core.learnPassedOn(before, by: gone) }
            }
            for sequence in span {
                for (index, message) in records[sequence].enumerated() {
                    Self.give(message, index) {
                        #expect(core.dealAgain($0, partition: partition, sequence: UInt64(sequence + 1), for: gone))
                    }
                }
            }
            core.received(.forgetDealt(by: gone))
        }
    }

    /// What the messages of a record were before that were passed on.
    func passedOn(_ index: Int) -> [MessageName] {
        records[index].compactMap(\.dealing).map(\.before).filter { $0 != .none }
    }

    /// Nodes that were killed and have read all of the log settle what they had been dealt before.
    func settlePasts() {
        for node in readers.sorted() {
            let cores = nodes[node].cores
            let pasts = cores.compactMap(\.unsettledPast)
            guard !pasts.isEmpty, cores.allSatisfy({ ($0.logPlaces[partition]?.sequence ?? 0) == UInt64(records.count) }) else {
                continue
            }
            let parts = pasts.dropFirst().reduce(pasts[0]) { $0.union($1) }.parts
            for part in parts where heirs[part.incarnation] == nil { heirs[part.incarnation] = number(of: node) }
            let won = parts.filter { dealer(for: $0.incarnation) == number(of: node) && begun[$0.incarnation] != number(of: node) }
            let span = Int(parts.map { $0.done[partition] }.min() ?? 0)..<records.count
            for core in cores {
                for part in parts { core.received(.heir(of: part.incarnation, heirs[part.incarnation] ?? 0)) }
                for part in won { core.received(.dealsFor(part.incarnation, after: part.done)) }
                for sequence in span {
                    let writer = number(of: steps[sequence].node, run: steps[sequence].run)
                    giveSteps(sequence + 1) { core.learnPast($0, of: $1, by: writer) }
                    for before in passedOn(sequence) { core.learnPast(passedOn: before) }
                }
                for sequence in span {
                    let writer = number(of: steps[sequence].node, run: steps[sequence].run)
                    giveSteps(sequence + 1) { core.followPast($0, of: $1, by: writer) }
                }
                core.received(.pastIsKnown(won: Set(won.map(\.incarnation))))
            }
            for core in cores {
                for sequence in span {
                    for (index, message) in records[sequence].enumerated() {
                        Self.give(message, index) {
                            #expect(core.dealPast($0, partition: partition, sequence: UInt64(sequence + 1)))
                        }
                    }
                }
                core.received(.settlePast)
            }
            nodes[node].settle()
        }
    }

    /// A run of a node has ended: the others hear of it.
    func logGone(_ node: Int, run: Int) {
        for other in nodes.indices where deals && other != node && !lost.contains(other) {
            for core in nodes[other].cores { core.received(.nodeIsGone(number(of: node, run: run))) }
            nodes[other].settle()
        }
    }

    /// A shard's members of a share group have changed: the others hear of it.
    func tellMembers(of node: Int, _ shard: Int, _ group: ClusterGroup) {
        let name = group.shareName + [0] + group.filter
        memberships[node][name, default: [:]][shard] = group
        for other in nodes.indices where deals && other != node && !lost.contains(other) {
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
