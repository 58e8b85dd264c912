import TestBasics
import Testing

@testable import Cluster

/// Retained messages, their stream and the engine under chance. `MARTLET_SEEDS=10000` runs as many seeds,
/// `MARTLET_SEED=17` runs that one.
struct RetainedStormTests {
    @Test(arguments: Seeds.parts(60, perPart: 30))
    func `all nodes end with what the stream has, and what is acknowledged is in it, whoever dies`(seeds: ClosedRange<UInt64>) {
        for seed in seeds {
            let world = RetainedWorld(seed: seed)
            for _ in 0..<60 { world.step() }
            world.check()
            #expect(world.failures.isEmpty, "\(world): \(Seeds.replay(seed))")
        }
    }
}
