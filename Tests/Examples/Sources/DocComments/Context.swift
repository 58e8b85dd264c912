import MartletClient
import MartletClientJSON
import MartletTesting

// What the code of the doc comments speaks of without declaring it. It is compiled, and never run.

let client = StubClient()

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
