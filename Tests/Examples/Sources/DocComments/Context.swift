import MartletClient
import MartletClientJSON
import MartletTesting

// What the code of the doc comments speaks of without declaring it. It is compiled, and never run.

let client = StubClient()

@MainActor var settings = ClientSettings(server: "mqtt://127.0.0.1")

enum Room: String, TopicParameter { case kitchen, cellar }

enum Home: EndpointCatalogue {
    static let temperature = Endpoint(Double.self, coding: .text, qos: .atLeastOnce, retain: true, sample: 21.5) {
        "home"; Parameter("room", Room.self); "sensor"; Parameter("number", Int.self); "temperature"
    }
    static let setTarget = Call(SetTarget.self) {
        "home"; Parameter("room", Room.self); "target"
    }
    static var all: [any EndpointDeclaration] { [temperature, setTarget] }
}

struct SetTarget: Request, Codable {
    typealias Response = Double
    var celsius: Double
}

struct PlaceSearch: Request, Codable {
    static let topic: TopicName = "map/place/search"
    typealias Response = [Place]
    var region: String
    var keyword: String
}

struct Place: Codable, Sendable {
    var title: String
}

struct Climate: Codable, Sendable {
    var celsius, humidity: Double
}

func fulfil(_ message: Message) async throws {}

enum Jobs {
    static let resize = Endpoint(String.self, coding: .text) {
        "jobs"; "resize"; Parameter("number", Int.self)
    }
}

/// What the requests of a service fail with when its session is over.
struct LoginExpired: Error, Codable {}

struct Account: Sendable {
    var name = "anna"
    var company = "example"
}

let account = Account()

struct LogIn: Request, Codable {
    struct Response: Codable, Sendable { var userID: String }
    var name, password: String
}

struct GetUser: Request, Codable {
    struct Response: Codable, Sendable { var name: String }
    var id: Int
}

func show(_ user: GetUser.Response, grey: Bool) {}
func heat(_ request: SetTarget, _ room: Room) async throws -> Double { request.celsius }
func connectToHost(port: Int) throws -> Int32 { -1 }
