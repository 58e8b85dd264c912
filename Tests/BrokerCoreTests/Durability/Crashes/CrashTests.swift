import BrokerCore
import MartletTestKit
import Testing

/// Nothing that was acknowledged is lost, and nothing of QoS 2 comes twice, wherever the power goes.
///
/// `MARTLET_SEEDS=10000` runs as many seeds, `MARTLET_SEED=17` runs that one.
@Suite struct CrashTests {
    @Test(.statement("MQTT-4.3.2-4", .v5), .statement("MQTT-4.3.3-10", .v5), arguments: CrashSeeds.parts)
    func `crashes at any time lose nothing and repeat nothing`(seeds: ClosedRange<UInt64>) {
        for seed in seeds {
            var simulation = CrashSimulation(seed: seed)
            simulation.run(actions: 120)
            #expect(
                simulation.objections.isEmpty,
                "shards \(simulation.broker.shardCount), full \(simulation.hadFullDisk) seed \(seed): replay with MARTLET_SEED=\(seed)"
            )
        }
    }
}
