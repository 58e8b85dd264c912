import MartletClient
import MartletClientJSON

struct PlaceSearch: Request, Codable {
    static let topic: TopicName = "map/place/search"
    typealias Response = [Place]
    var region: String
    var keyword: String
}

struct Place: Codable, Sendable {
    var title: String
}

extension PlaceSearch: Sampled {
    static var sample: [Place] { [Place(title: "Noodle bar")] }
}

struct PlaceModel<Network: RequestClient> {
    let network: Network

    func titles(near word: String) async throws -> [String] {
        try await network.send(PlaceSearch(region: "Beijing", keyword: word)).map(\.title)
    }
}

let test = PlaceModel(network: StubClient(PlaceSearch.self))
print("sample:", try await test.titles(near: "noodles"))

let server = try ServerAddress(CommandLine.arguments.dropFirst().first ?? "mqtt://127.0.0.1")
let shop = try Client(ClientSettings(server: server))
try await shop.connect()
let responder = try await shop.responder(for: PlaceSearch.self) { request, _ in
    [Place(title: "\(request.keyword) of \(request.region)")]
}
let answering = Task { try await responder.run() }

let client = try Client(ClientSettings(server: server))
try await client.connect()
let live = PlaceModel(network: client)
print("live:", try await live.titles(near: "Noodles"))

answering.cancel()
try await answering.value
await client.disconnect()
await shop.disconnect()
