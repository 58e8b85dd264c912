import BrokerModel
import TestBasics
import Testing

@testable import Cluster

/// Sessions, leases and engine under chance. `MARTLET_SEEDS=10000` runs as many seeds, `MARTLET_SEED=17` runs that one.
struct SessionStormTests {
    @Test(arguments: Seeds.parts(18, perPart: 9))
    func `no two nodes act for a session, each CONNECT finds one that does, and each will that is due is published once`(
        seeds: ClosedRange<UInt64>
    ) {
        var letInUnsettled = 0
        for seed in seeds {
            let world = SessionWorld(seed: seed)
            for _ in 0..<50 { world.step() }
            world.check()
            #expect(world.failures.isEmpty, "\(world): \(Seeds.replay(seed))")
            letInUnsettled += world.letInUnsettled
        }
        // Clients that begin anew do not wait for who is gone: among the first seeds there are some.
        if seeds.contains(1), seeds.count >= 9 { #expect(letInUnsettled > 0) }
    }

    @Test(arguments: Seeds.parts(4, perPart: 4))
    func `who goes from node to node while all is well loses nothing, and gets nothing again`(seeds: ClosedRange<UInt64>) {
        for seed in seeds {
            let world = SessionWorld(seed: seed)
            for _ in 0..<30 { world.step(faults: false) }
            // The first owner of each of six clients has nobody to ask.
            let replays = world.replays
            world.check()
            #expect(
                world.failures.isEmpty && replays <= 6 && world.takeOvers > 3,
                "\(world), \(replays) replays: \(Seeds.replay(seed))")
        }
    }
}
