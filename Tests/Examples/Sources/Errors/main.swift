import MartletClient
import MartletClientJSON

struct Quote: Request, Codable {
    enum Failure: String, Error, Codable { case soldOut }
    struct Response: Codable, Sendable { var price: Int }
    var article: String
}

let server = try ServerAddress(CommandLine.arguments.dropFirst().first ?? "mqtt://127.0.0.1")
let shop = try Client(ClientSettings(server: server))
try await shop.connect()
let responder = try await shop.responder(for: Quote.self) { request, _ in
    guard request.article == "lamp" else { throw Quote.Failure.soldOut }
    return Quote.Response(price: 7)
}
let answering = Task { try await responder.run() }

var settings = ClientSettings(server: server)
settings.interceptors = [
    AddUserProperties(["app": "panel"]),
    OnFailure { request in
        if case .client(.noResponder) = request.outcome, request.attempt < 3 { return .retry(after: .milliseconds(200)) }
        print("failed: \(request.topic?.description ?? "nowhere")")
        return .none
    },
]
let client = try Client(settings)
try await client.connect()

func price(of article: String) async {
    do {
        print("\(article): \(try await client.send(Quote(article: article)).price)")
    } catch .answered(.soldOut) {
        print("\(article): sold out")
    } catch {
        print("\(article): \(error)")
    }
}

await price(of: "lamp")
await price(of: "chair")

answering.cancel()
try await answering.value
await client.disconnect()
await shop.disconnect()
