import Testing

@testable import Cluster

@Suite struct SilenceWatchTests {
    private let other = NodeID(store: 2, incarnation: 1)

    private func member(_ state: ClusterMember.State, isSelf: Bool = false, saysSomething: Bool = true) -> ClusterMember {
        ClusterMember(
            node: other, state: state, isSelf: isSelf, since: 0, summary: saysSomething ? NodeSummary(node: other) : nil)
    }

    @Test func `a node that falls silent is told of once, and once more when it is heard of again`() {
        var watch = SilenceWatch()
        let states: [ClusterMember.State] = [.up, .silent, .silent, .up, .up]
        let news = states.map { state in watch.look([member(state)]).map(\.isSilent) }
        #expect(news == [[], [true], [], [false], []])
    }

    @Test func `who is gone, has just come, or is this node itself is not told of`() {
        var watch = SilenceWatch()
        let strange = [[member(.silent, saysSomething: false)], [member(.silent, isSelf: true)]].map { watch.look($0).count }
        #expect(strange == [0, 0])
        let going = [[member(.silent)], [member(.gone)], []].map { watch.look($0).count }
        #expect(going == [1, 0, 0])
    }
}
