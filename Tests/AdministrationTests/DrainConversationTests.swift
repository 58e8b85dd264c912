import BrokerCore
import HTTP
import JSON
import MQTTCodec
import MartletTestKit
import Testing

@testable import Administration

/// Sending the clients away over HTTP.
@Suite struct DrainConversationTests {
    @Test func `a broker that is drained says so, is not ready, and lets clients in again`() {
        let house = AdministrationHouse()
        let client = house.simulation.connected("client")
        #expect(house.get("broker").object?["drain"] == .null)
        let begun = house.send(.post, "drain", #"{"server_reference":"other:1883","per_second":5}"#)
        #expect(begun.status == 200 && begun.object?["state"]?.string == "draining")
        #expect(client.disconnectReason == .useAnotherServer)
        let drain = house.get("broker").object?["drain"]?.object
        #expect(drain?["server_reference"]?.string == "other:1883" && drain?["per_second"]?.integer == 5)
        #expect(drain?["stop"]?.boolean == false && drain?["connections_left"]?.integer == 1)
        #expect(house.get("/readyz").status == 503)
        #expect(house.get("/readyz?verbose").body.contains("[-]listeners failed: the broker is being drained"))
        #expect(house.get("/livez").status == 200)
        #expect(house.send(.delete, "drain").status == 204)
        #expect(house.send(.delete, "drain").status == 404)
        #expect(house.get("/readyz").status == 200 && client.connect()?.isAccepted == true)
        #expect(house.get("audit?limit=3").column("operation") == ["endDrain", "endDrain", "drain"])
    }

    @Test func `what is not said has a default`() {
        let house = AdministrationHouse()
        let client = house.simulation.connected("client")
        #expect(house.send(.post, "drain", "{}").object?["per_second"]?.integer == 1000)
        #expect(house.broker.drain?.request == DrainRequest(perSecond: 1000, stops: false))
        #expect(client.disconnectReason == .serverShuttingDown)
    }

    @Test(arguments: [
        #"{"per_second":0}"#, #"{"per_second":1000001}"#, #"{"server_reference":""}"#, #"{"stop":"yes"}"#, #"{"when":1}"#, "[]",
    ])
    func `what makes no sense is refused`(body: String) {
        #expect(AdministrationHouse().send(.post, "drain", body).status == 400)
    }

    @Test func `nobody drains a broker that ends, and no viewer any`() {
        let house = AdministrationHouse()
        house.broker.condition.isStopping = true
        #expect(house.send(.post, "drain", "{}").status == 409)
        #expect(house.send(.delete, "drain").status == 409)
        #expect(AdministrationHouse(role: .viewer).send(.post, "drain", "{}").status == 403)
    }
}
