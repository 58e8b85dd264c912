import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

@testable import BrokerCore
@testable import BrokerModel

@Suite struct ShareGroupTests {
    private let name = GroupName(shareName: "group", filter: Array("a/#".utf8))

    @Test func `connected members take turns, evenly`() {
        var group = ShareGroup(name: name, serial: 1)
        for key in UInt64(1)...5 { group.join(Self.member(key, isConnected: key != 3)) }
        let chosen = (0..<40).map { _ in group.choose()?.sessionKey ?? 0 }
        for start in stride(from: 0, to: 40, by: 4) { #expect(Set(chosen[start..<start + 4]) == [1, 2, 4, 5]) }
    }

    @Test func `members whose clients are away take turns when none is connected`() {
        var group = ShareGroup(name: name, serial: 1)
        for key in UInt64(1)...3 { group.join(Self.member(key, isConnected: false)) }
        #expect(Set((0..<3).map { _ in group.choose()?.sessionKey ?? 0 }) == [1, 2, 3])
        #expect(group.choose(connectedOnly: true) == nil)
        group.setPresence(sessionKey: 2, isConnected: true)
        #expect((0..<3).map { _ in group.choose()?.sessionKey ?? 0 } == [2, 2, 2])
        group.setPresence(sessionKey: 99, isConnected: true)
        #expect(group.members.count == 3)
    }

    @Test func `one member of a node that is gone stands for all who may come again, when there is no other`() {
        var group = ShareGroup(name: name, serial: 1)
        let (node, again, last): (UInt64, UInt64, UInt64) = (7 << 32 | 1, 7 << 32 | 2, 9 << 32 | 1)
        group.setMembers(of: node, number: 1, connected: 2, away: 1, readsLog: true)
        #expect(!group.nodeIsGone(last) && group.nodeIsGone(node) && group.nodeIsGone(node) && group.members.count == 1)
        #expect(group.choose()?.node == node && group.choose(isHere: true) == nil && group.choose(isThere: true) == nil)
        #expect(!group.hasFullMember && group.choose(connectedOnly: true) == nil && group.isFirst(.max, besides: 0))
        group.join(Self.member(1, isConnected: false))
        #expect((0..<3).map { _ in group.choose()?.sessionKey ?? 0 } == [1, 1, 1])
        // Another one is gone behind it; who comes from there first is not told apart.
        group.setMembers(of: last, number: 1, connected: 0, away: 2, readsLog: true)
        #expect(group.nodeIsGone(last) && group.members.count == 2)
        group.leave(sessionKey: 1)
        #expect(group.choose()?.node == last)
        group.forgetGone(node)
        #expect(group.members.count == 1)
        group.forgetGone(last)
        #expect(group.members.isEmpty && !group.nodeIsGone(last))
        // It is back, in another run; what reads no log has nothing that could wait.
        group.setMembers(of: node, number: 1, connected: 1, away: 0, readsLog: true)
        _ = group.nodeIsGone(node)
        group.setMembers(of: again, number: 1, connected: 1, away: 0)
        #expect(group.members.map(\.node) == [again] && !group.nodeIsGone(again) && group.members.isEmpty)
        group.checkInvariants()
    }

    @Test func `the member that gave a message back is not chosen again`() {
        var group = ShareGroup(name: name, serial: 1)
        group.join(Self.member(1, isConnected: true))
        #expect(group.choose(except: 1) == nil)
        group.join(Self.member(2, isConnected: false))
        #expect(group.choose(except: 1)?.sessionKey == 2)
        #expect(group.choose(except: 1, connectedOnly: true) == nil)
        #expect(group.choose(except: 2)?.sessionKey == 1)
    }

    @Test(.statement("MQTT-3.8.4-3", .v5))
    func `joining again replaces the terms`() {
        var group = ShareGroup(name: name, serial: 1)
        group.join(Self.member(1, isConnected: true))
        group.join(Self.member(1, isConnected: true, maximumQoS: .exactlyOnce))
        #expect(group.members.map { $0.terms.maximumQoS } == [.exactlyOnce])
    }

    @Test(arguments: [UInt64(101), 102])
    func `among members that come and go somebody is chosen, connected first`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var group = ShareGroup(name: name, serial: 1)
        var oracle: [UInt64: Bool] = [:]
        for _ in 0..<4000 {
            let key = UInt64(1 + random.below(6))
            let isConnected = random.oneIn(2)
            switch random.below(6) {
            case 0:
                group.join(Self.member(key, isConnected: isConnected))
                oracle[key] = isConnected
            case 1:
                group.leave(sessionKey: key)
                oracle[key] = nil
            case 2:
                group.setPresence(sessionKey: key, isConnected: isConnected)
                if oracle[key] != nil { oracle[key] = isConnected }
            default:
                let excluded = random.oneIn(3) ? key : 0
                let candidates = oracle.filter { $0.key != excluded }
                let connected = candidates.filter { $0.value }
                let chosen = group.choose(except: excluded)?.sessionKey
                #expect((chosen == nil) == candidates.isEmpty)
                if let chosen { #expect((connected.isEmpty ? candidates : connected)[chosen] != nil) }
            }
            #expect(Set(group.members.map { $0.sessionKey }) == Set(oracle.keys))
            group.checkInvariants()
        }
    }

    @Test(.statement("MQTT-4.8.2-2", .v5))
    func `the table tells groups apart by name, filter and serial number`() {
        var table = ShareGroupTable()
        let names = ["g", "h"].flatMap { share in
            ["a", "b"].map { GroupName(shareName: EncodedString(share) ?? "", filter: Array($0.utf8)) }
        }
        let indices = names.map { table.make($0) }
        #expect(Set(indices).count == 4)
        #expect(names.map { table.find($0) } == indices.map { $0 })
        let serials = indices.map { table[$0]?.serial ?? 0 }
        #expect(serials.map { table.find(serial: $0) } == indices.map { $0 })
        table.remove(indices[1])
        table.remove(indices[1])
        #expect(table.count == 3)
        #expect(table.find(names[1]) == nil)
        #expect(table.find(serial: serials[1]) == nil)
        #expect(table[indices[1]] == nil)
        let again = table.make(names[1])
        #expect(again == indices[1])
        #expect(table[again]?.serial != serials[1], "a late message must not go to the new group")
        #expect(table[again]?.members.isEmpty ?? false)
    }

    private static func member(_ key: UInt64, isConnected: Bool, maximumQoS: QoS = .atLeastOnce) -> GroupMember {
        GroupMember(
            shard: 0, sessionIndex: UInt32(key), sessionKey: key, serial: 1, terms: SubscriptionTerms(maximumQoS: maximumQoS),
            isConnected: isConnected)
    }
}

/// What is found in share groups without looking at every member or group.
@Suite struct ShareGroupIndexTests {
    private func name(_ number: Int) -> GroupName { GroupName(shareName: "g", filter: Array("t/\(number)".utf8)) }

    @Test func `members are found and counted, whoever comes and goes`() {
        var random = SeededGenerator(seed: 7)
        var group = ShareGroup(name: name(0), serial: 1)
        var oracle: [UInt64: (shard: Int, isConnected: Bool)] = [:]
        for _ in 0..<4000 {
            let key = UInt64(1 + random.below(9))
            let (shard, isConnected) = (random.below(3), random.oneIn(2))
            switch random.below(3) {
            case 0:
                group.join(
                    GroupMember(
                        shard: shard, sessionIndex: 0, sessionKey: key, serial: 1,
                        terms: SubscriptionTerms(maximumQoS: .atMostOnce), isConnected: isConnected))
                oracle[key] = (shard, isConnected)
            case 1:
                group.leave(sessionKey: key)
                oracle[key] = nil
            default:
                group.setPresence(sessionKey: key, isConnected: isConnected)
                oracle[key]?.isConnected = isConnected
            }
            for key in UInt64(1)...9 {
                #expect(group.member(key)?.sessionKey == (oracle[key] == nil ? nil : key))
                #expect(group.member(key)?.isConnected == oracle[key]?.isConnected)
            }
            #expect(group.hasConnected() == oracle.values.contains { $0.isConnected })
            for shard in 0..<4 {
                #expect(group.hasConnected(on: shard) == oracle.values.contains { $0.isConnected && $0.shard == shard })
            }
        }
    }

    @Test func `a session finds its memberships by name and keeps their order`() {
        var memberships = GroupMemberships()
        for number in 0..<5 { memberships.append(GroupMembership(name: name(number), group: UInt32(number))) }
        memberships.setStoreNumber(256, of: name(2))
        #expect(memberships.map(\.group) == [0, 1, 2, 3, 4])
        #expect(memberships.find(name(2))?.storeNumber == 256)
        #expect(memberships.remove(name(1))?.group == 1)
        #expect(memberships.remove(name(1)) == nil)
        #expect(memberships.map(\.group) == [0, 4, 2, 3])
        #expect(memberships.remove(name(3))?.group == 3)
        #expect(memberships.find(name(4))?.group == 4)
        #expect(!memberships.contains(name(3)))
        memberships.removeAll()
        #expect(memberships.isEmpty)
        #expect(!memberships.contains(name(0)))
    }

    @Test func `a group is found by what stands for its name, until it is gone`() {
        var table = ShareGroupTable()
        let first = table.make(name(0), hash: 11)
        let second = table.make(name(1), hash: 13)
        #expect(table.find(hash: 11) == first)
        #expect(table.find(hash: 13) == second)
        table.remove(first)
        #expect(table.find(hash: 11) == nil)
        #expect(table.find(hash: 13) == second)
    }
}
