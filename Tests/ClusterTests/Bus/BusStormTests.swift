import MQTTCodec
import TestBasics
import Testing

@testable import Cluster

/// Nodes, engine and clients under chance. `MARTLET_SEEDS=10000` runs as many seeds, `MARTLET_SEED=17` runs that one.
struct BusStormTests {
    @Test(arguments: Seeds.parts(20, perPart: 10))
    func `who has a SUBACK gets what is published afterwards on any node, once and in order`(seeds: ClosedRange<UInt64>) {
        for seed in seeds {
            let world = BusWorld(seed: seed)
            for _ in 0..<40 { world.step(faults: false) }
            world.clock.run(for: 1_000_000)
            world.check()
            world.checkLiveness()
            #expect(world.failures.isEmpty, "\(world): \(Seeds.replay(seed))")
        }
    }

    @Test(arguments: Seeds.parts(60, perPart: 30))
    func `connections, servers, routes and nodes that come and go cost no more than was under way`(seeds: ClosedRange<UInt64>) {
        for seed in seeds {
            let world = BusWorld(seed: seed)
            world.isMoving = true
            for _ in 0..<50 { world.step(faults: true) }
            world.clock.run(for: 1_000_000)
            world.check()
            world.checkLiveness()
            #expect(world.failures.isEmpty, "\(world): \(Seeds.replay(seed))")
        }
    }
}
