//! What went wrong elsewhere.

use super::*;

#[test]
fn a_weather_report_is_a_row() {
    let weather = schema(include_str!("weather.json"));
    let columns = plan(&weather, &table()).unwrap().columns;
    let types: Vec<String> = columns.iter().map(|column| format!("{} {}", column.name, column.data_type)).collect();
    assert_eq!(types, ["location struct<city: string, state: string>", "temperature long", "timestamp long"]);
    check(
        &weather,
        "{\"location\": {\"city\": \"Köln\", \"state\": \"N\\u0052W\"}, \"temperature\": -3, \"timestamp\": 1764400000, \"windSpeed\": 12.5}",
        "location={city:\"Köln\",state:\"NRW\"} temperature=-3 timestamp=1764400000",
    );
}
