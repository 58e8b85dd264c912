import BrokerCore
import MartletTestKit
import TestBasics
import Testing

/// Sessions that go from node to node lose nothing that was acknowledged, get nothing of QoS 2 twice, and keep the
/// order of each publisher and topic.
///
/// `MARTLET_SEEDS=10000` runs as many seeds, `MARTLET_SEED=17` runs that one.
@Suite struct MoveStormTests {
    @Test(
        .statement("MQTT-4.3.3-10", .v5), .statement("MQTT-4.6.0-6", .v5), .timeLimit(.minutes(60)),
        arguments: Seeds.parts(40, perPart: 10))
    func `sessions that move lose nothing and repeat nothing, whatever crashes`(seeds: ClosedRange<UInt64>) {
        var deeds = MoveStorm.Deeds()
        for seed in seeds {
            var storm = MoveStorm(seed: seed)
            storm.run(actions: 150)
            #expect(storm.objections.isEmpty, "\(storm.objections.prefix(3)): \(Seeds.replay(seed))")
            deeds += storm.deeds
        }
        guard seeds.count >= 10 else { return }
        // A third of the seeds crash nothing, and the others two or three times.
        #expect(deeds.crashes >= seeds.count / 4 && deeds.hops >= 10 * seeds.count, "\(deeds)")
        #expect(deeds.resumed >= 4 * seeds.count && deeds.received >= 10 * seeds.count, "\(deeds)")
        #expect(deeds.replayed >= 2 * seeds.count && deeds.looks > 0 && deeds.begun > seeds.count, "\(deeds)")
    }
}
