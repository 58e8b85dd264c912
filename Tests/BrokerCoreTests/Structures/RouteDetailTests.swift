import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore
@testable import BrokerModel

@Suite struct RouteDetailTests {
    @Test(.statement("MQTT-3.3.4-3", .v5), .statement("MQTT-3.8.3-3", .v5))
    func `overlapping subscriptions in any order grant the same`() throws {
        let subscriptions = [
            SubscriptionTerms(maximumQoS: .atMostOnce, identifier: 5),
            SubscriptionTerms(maximumQoS: .exactlyOnce, noLocal: true, retainAsPublished: true, identifier: 300),
            SubscriptionTerms(maximumQoS: .atLeastOnce),
        ]
        let session = Session(index: 0, generation: 0, key: 256, clientIdentifier: "c", publisherKey: 1)
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let terms = order.map { subscriptions[$0] }
            var route = Route(
                session: Reference(session), maximumQoS: terms[0].maximumQoS,
                retainAsPublished: terms[0].retainAsPublished, detail: nil)
            var detail = RouteDetail.first(terms[0])
            for next in terms.dropFirst() {
                if let detail { detail.add(next) } else { detail = RouteDetail.first(next, behind: route) }
                route.maximumQoS = max(route.maximumQoS, next.maximumQoS)
                route.retainAsPublished = route.retainAsPublished || next.retainAsPublished
            }
            let made = try #require(detail)
            #expect(made.seal() == 3)
            #expect(made.all.maximumQoS == .exactlyOnce)
            #expect(made.all.retainAsPublished)
            #expect(Set(made.all.identifiers) == [5, 300])
            let own = try #require(made.own)
            #expect(own.maximumQoS == .atLeastOnce)
            #expect(!own.retainAsPublished)
            #expect(own.identifiers == [5])
            #expect(own.encodedIdentifiers?.encoded == [0x0b, 5])
            #expect(made.all.encodedIdentifiers?.encoded.count == 5)
        }
    }

    @Test func `a plain subscription needs no detail, and one with No Local alone gives its own messages to nobody`() {
        let plain = RouteDetail.first(SubscriptionTerms(maximumQoS: .exactlyOnce, retainAsPublished: true))
        #expect(plain == nil)
        let quiet = RouteDetail.first(SubscriptionTerms(maximumQoS: .atLeastOnce, noLocal: true))
        #expect(quiet != nil)
        #expect(quiet?.own == nil)
        #expect(quiet?.all.encodedIdentifiers == nil)
    }

    @Test func `identifiers are encoded as variable byte integers`() {
        #expect(SubscriptionIdentifiers([1, 127]).encoded == [0x0b, 1, 0x0b, 127])
        #expect(SubscriptionIdentifiers([128]).encoded == [0x0b, 0x80, 0x01])
        #expect(SubscriptionIdentifiers([16_384]).encoded == [0x0b, 0x80, 0x80, 0x01])
        #expect(SubscriptionIdentifiers([268_435_455]).encoded == [0x0b, 0xff, 0xff, 0xff, 0x7f])
    }
}
