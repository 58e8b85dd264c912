import MartletClient
import Platform
import Testing

@Suite struct InterceptorTests {
    private struct Witness: Interceptor {
        let name: String
        let seen: Locked<[String]>

        func willPublish(_ publication: inout Publication) throws(ClientError) {
            seen.withLock { $0.append("\(name) before \(publication.properties.userProperties.map(\.name))") }
            if publication.topic == "forbidden" { throw .settings("not here") }
        }

        func didPublish(_ publication: Publication, _ outcome: Result<PublishReceipt, ClientError>, after duration: Duration) {
            seen.withLock { $0.append("\(name) after \(outcome)") }
        }
    }

    private let seen = Locked<[String]>([])

    private func client(_ interceptors: [any Interceptor]) throws -> Client {
        var settings = ClientSettings(server: "mqtt://127.0.0.1:1")
        settings.interceptors = interceptors
        return try Client(settings)
    }

    @Test func `interceptors are asked in their order, and told of the end in the opposite one`() async throws {
        let client = try client([
            Witness(name: "first", seen: seen), AddUserProperties(["app": "panel"]), Witness(name: "second", seen: seen),
        ])
        await #expect(throws: ClientError.notConnected) { try await client.publish("1", to: "a") }
        #expect(seen.value.count == 4)
        #expect(seen.value.prefix(2) == ["first before []", "second before [app]"])
        #expect(seen.value[2].hasPrefix("second after failure") && seen.value[3].hasPrefix("first after failure"))
    }

    @Test func `what an interceptor throws, publishing throws`() async throws {
        let client = try client([Witness(name: "guard", seen: seen), Witness(name: "next", seen: seen)])
        await #expect(throws: ClientError.settings("not here")) { try await client.publish("1", to: "forbidden") }
        #expect(seen.value.map { String($0.prefix(10)) } == ["guard befo", "next after", "guard afte"])
    }

    @Test func `refusals for a reason are told to whoever asked for them, who says what is done`() {
        let told = Locked<[Refusal]>([])
        let refusal = OnRefusal(of: .notAuthorized, .banned) { refusal in
            told.withLock { $0.append(refusal) }
            return refusal.reason == .banned ? .logOut : .none
        }
        #expect(refusal.didRefuse(Refusal(.publication("t"), .notAuthorized)) == .none)
        #expect(refusal.didRefuse(Refusal(.subscription(["a/#"]), .packetTooLarge)) == .none)
        #expect(refusal.didRefuse(Refusal(.connection, .banned, "go")) == .logOut)
        #expect(told.value == [Refusal(.publication("t"), .notAuthorized), Refusal(.connection, .banned, "go")])
        #expect(OnRefusal { _ in .logOut }.didRefuse(Refusal(.connection, .serverBusy)) == .logOut, "no reason stands for all")
    }

    @Test func `settings take them as the documentation shows`() {
        var settings = ClientSettings(server: "mqtt://127.0.0.1")
        settings.interceptors = [AddUserProperties(["app": "7"]), OnRefusal(of: .notAuthorized) { _ in .logOut }]
        #expect(settings.interceptors.count == 2)
    }

    @Test func `a User Property that MQTT does not allow is an error of publishing`() async throws {
        let client = try client([AddUserProperties(["a\0": "b"])])
        await #expect(throws: ClientError.self) { try await client.publish("1", to: "a", qos: .atLeastOnce) }
    }
}
