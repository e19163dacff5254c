package report_test
import ("testing";"os"
"github.com/zeroae/zae-limiter-go/internal/resulttest"
"github.com/zeroae/zae-limiter-go/loadtest/report"
)
func TestLook(t *testing.T) {
	r := resulttest.New(resulttest.Run{Noise:.2,Correlation:.7,Classes: []resulttest.Class{{Name:"Users",Rate:200,Refused:.1,Throttled:.003},{Name:"Management",Rate:3,Median:12,Spread:.8}}, Phases: []resulttest.Phase{{"all",120}}})
	f,_ := os.Create("/tmp/views-one.html"); if err:=report.HTML(f,r);err!=nil{t.Fatal(err)}; f.Close()
	r = resulttest.New(resulttest.Run{Noise:.2,Correlation:.7,
	 Sides: []resulttest.Side{{Name:"bare",Bare:true,Slower:3},{Name:"limiter"},{Name:"shared",Slower:1.1}},
	 Classes: []resulttest.Class{{Name:"Neighbours",Rate:200,Refused:.1},{Name:"Attacker",Rate:500,Refused:.4,Throttled:.1,Median:20,Spread:.8,Only:"attack"}}, Phases: []resulttest.Phase{{"quiet",30},{"attack",30}}})
	r.Unreliable="the generator was 12 ms late at p99"
	r.Sides[1].Wrong.Beyond=3
	f,_ = os.Create("/tmp/views-three.html"); if err:=report.HTML(f,r);err!=nil{t.Fatal(err)}; f.Close()
	r = resulttest.New(resulttest.Run{Noise:.2,Correlation:.99,Trend:3,Classes: []resulttest.Class{{Name:"Users",Rate:5,Refused:.1}}, Phases: []resulttest.Phase{{"all",86400}}})
	f,_ = os.Create("/tmp/views-day.html"); if err:=report.HTML(f,r);err!=nil{t.Fatal(err)}; f.Close()
}
